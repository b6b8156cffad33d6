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

{{/* The image, by its digest if that is given. */}}
{{- define "inplaced.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names of secrets as a pod has them. */}}
{{- define "inplaced.pullSecrets" -}}
{{- $secrets := list -}}
{{- range .Values.image.pullSecrets -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- toYaml $secrets -}}
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
{{- toYaml (default dict .Values.config) -}}
{{- end -}}

{{/* The Deployment of the controller of declared updates. Where it is taken away, its policy ends in any case. */}}
{{- define "inplaced.controller" -}}
{{- $values := .Values.updates -}}
{{- $deployment := include "inplaced.file" (list . "updates-controller.yaml") | fromYaml -}}
{{- $pod := $deployment.spec.template.spec -}}
{{- $main := index $pod.containers 0 -}}
{{- $_ := set $main "image" (include "inplaced.image" .) -}}
{{- $_ := set $main "imagePullPolicy" .Values.image.pullPolicy -}}
{{- $_ := set $main "resources" $values.resources -}}
{{- $policy := ternary (list "--policy" "inplaced-hold") (list) (or $values.policy (not $values.enabled)) -}}
{{- $config := ternary (list "--restart-on-config-change") (list) $values.restartOnConfigChange -}}
{{- $_ := set $main "args" (concat (list "controller" "--all-namespaces") $policy $config (default list $values.extraArgs)) -}}
{{- $_ := set $pod "nodeSelector" (merge $pod.nodeSelector (default dict $values.nodeSelector)) -}}
{{- range $key := list "affinity" "tolerations" "priorityClassName" -}}
{{- with index $values $key -}}
{{- $_ := set $pod $key . -}}
{{- end -}}
{{- end -}}
{{- if .Values.image.pullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" (include "inplaced.pullSecrets" . | fromYamlArray) -}}
{{- end -}}
{{- toYaml $deployment -}}
{{- end -}}
