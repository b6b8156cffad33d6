{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* A file of files/ with the namespace of the release: the manifests are those of kustomize. */}}
{{- define "inplaced.file" -}}
{{- $root := index . 0 -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $root.Files.Get (printf "files/%s" (index . 1))
    | replace "namespace: inplaced\n" (printf "namespace: %s\n" $namespace)
    | replace "system:serviceaccount:inplaced:" (printf "system:serviceaccount:%s:" $namespace) -}}
{{- end -}}
