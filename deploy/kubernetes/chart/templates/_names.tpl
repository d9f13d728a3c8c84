{{/* Common beginning of the names of all objects: the name of the release, with the chart's if it lacks that. */}}
{{- define "stator.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-stator" .Release.Name) (contains "stator" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels by which Services, policies and budgets find the pods of a component: { root, component, pool? }. */}}
{{- define "stator.selector" -}}
app.kubernetes.io/name: stator
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
stator/pool: {{ . }}
{{- end }}
{{- end -}}

{{- define "stator.labels" -}}
{{ include "stator.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{/* Labels of a Service whose ready pods discovery sees. Kubernetes copies them to the slices of the Service. */}}
{{- define "stator.discovered" -}}
nvidia.com/dynamo-discovery-backend: kubernetes
nvidia.com/dynamo-discovery-enabled: "true"
{{- end -}}

{{/* Name of the service account of a component. */}}
{{- define "stator.account" -}}
{{ include "stator.fullname" .root }}-{{ .component }}
{{- end -}}
