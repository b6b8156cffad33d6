/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runtime's messages under names that can be read
 */

#include "proto/containerd/services/content/v1/content.pb-c.h"
#include "proto/containerd/services/leases/v1/leases.pb-c.h"
#include "proto/containerd/services/snapshots/v1/snapshots.pb-c.h"
#include "proto/runtime/v1/api.pb-c.h"

typedef Runtime__V1__VersionResponse CriVersion;
typedef Runtime__V1__Image CriImage;
typedef Runtime__V1__ImageStatusResponse CriImageStatus;
typedef Runtime__V1__ListImagesResponse CriImageList;
typedef Runtime__V1__PullImageRequest CriPullRequest;
typedef Runtime__V1__PullImageResponse CriPullReply;
typedef Runtime__V1__ImageFsInfoResponse CriImageFsInfo;
typedef Runtime__V1__ImageSpec CriImageSpec;
typedef Runtime__V1__AuthConfig CriAuth;
typedef Runtime__V1__PodSandboxConfig CriSandboxConfig;

typedef Runtime__V1__Container CriContainer;
typedef Runtime__V1__ContainerFilter CriContainerFilter;
typedef Runtime__V1__ListContainersResponse CriContainerList;
typedef Runtime__V1__ContainerStatusResponse CriContainerStatus;
typedef Runtime__V1__PodSandboxStatusResponse CriSandboxStatus;
typedef Runtime__V1__ExecSyncResponse CriExec;

typedef Containerd__Services__Content__V1__ListStatusesResponse ContentIngests;
typedef Containerd__Services__Content__V1__Status ContentIngest;
typedef Containerd__Services__Content__V1__ListContentResponse ContentList;
typedef Containerd__Services__Content__V1__Info ContentInfo;
typedef Containerd__Services__Content__V1__ReadContentResponse ContentPart;
typedef Containerd__Services__Content__V1__InfoResponse ContentInfoReply;
typedef Containerd__Services__Content__V1__Info__LabelsEntry ContentLabel;

typedef Containerd__Services__Snapshots__V1__StatSnapshotResponse SnapshotReply;
typedef Containerd__Services__Snapshots__V1__Info SnapshotInfo;
typedef Containerd__Services__Snapshots__V1__Info__LabelsEntry SnapshotLabel;

typedef Containerd__Services__Leases__V1__ListResourcesResponse Leased;
