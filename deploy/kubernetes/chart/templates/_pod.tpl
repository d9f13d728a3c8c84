{{/* Fields that all pods of the product share: { root, component, pool?, values }. */}}
{{- define "stator.pod" -}}
serviceAccountName: {{ include "stator.account" . }}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
{{ include "stator.podSecurity" . | indent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- /* Pods of a group stay together. */}}
{{- if not (gt (int (.values.nodes | default 1)) 1) }}
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
{{ include "stator.selector" $ | indent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{- define "stator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "stator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Image of a container: { root, image }, where image has a repository and perhaps a tag. */}}
{{- define "stator.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{/* A budget that lets one pod of a component leave at a time: { root, component, pool?, name }. */}}
{{- define "stator.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
{{ include "stator.labels" . | indent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
{{ include "stator.selector" . | indent 6 }}
{{- end -}}
