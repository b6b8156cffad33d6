{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* A file of files/ with the namespace of the release: the manifests are those of kustomize. */}}
{{- define "inplaced.file" -}}
{{- $root := index . 0 -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $root.Files.Get (printf "files/%s" (index . 1))
    | replace "namespace: inplaced\n" (printf "namespace: %s\n" $namespace) -}}
{{- end -}}

{{/* An object with more labels and annotations: those of a value with these two keys. */}}
{{- define "inplaced.marked" -}}
{{- $object := index . 0 -}}
{{- $value := index . 1 -}}
{{- $_ := set $object.metadata "labels" (merge (dict) (default dict $value.labels) $object.metadata.labels) -}}
{{- with $value.annotations -}}
{{- $_ := set $object.metadata "annotations" . -}}
{{- end -}}
{{- toYaml $object -}}
{{- end -}}

{{/* The folder of each runtime's socket; runtimeFolder comes first. */}}
{{- define "inplaced.runtimeFolder" -}}
{{- $usual := dict
    "containerd" "/run/containerd"
    "k3s" "/run/k3s/containerd"
    "microk8s" "/var/snap/microk8s/common/run"
    "k0s" "/run/k0s"
    "crio" "/run/crio"
    "cri-dockerd" "/run/cri-dockerd.sock" -}}
{{- .Values.runtimeFolder | default (index $usual .Values.runtime) -}}
{{- end -}}

{{- define "inplaced.config" -}}
{{- toYaml .Values.config -}}
{{- end -}}
