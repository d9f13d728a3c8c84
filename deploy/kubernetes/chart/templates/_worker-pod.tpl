{{/* Name of the template of a pool's claims. No template can change, so other devices are another template. */}}
{{- define "stator.claimTemplate" -}}
{{- $devices := printf "%s %d" .values.gpuClass (int .values.gpus) -}}
{{ include "stator.account" . }}-{{ .pool }}-{{ $devices | sha256sum | trunc 8 }}
{{- end -}}

{{/* Labels, annotations and spec of a worker's pod: { root, component, pool, values, isNode? }. */}}
{{- define "stator.workerTemplate" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $isMock := eq $values.engine "mocker" -}}
{{- $image := merge dict ($values.image | default dict) (ternary $root.Values.image $root.Values.workerImage $isMock) -}}
{{- $own := include "stator.workerEnv" (dict "root" $root "values" $values) | fromJson -}}
{{- $secrets := include "stator.fleetSecrets" (dict "root" $root "role" "worker") | fromJson -}}
{{- if and $root.Values.hub.secret (not $isMock) -}}
{{- $_ := set $secrets "HF_TOKEN" (dict "secret" $root.Values.hub.secret "key" $root.Values.hub.key) -}}
{{- end -}}
metadata:
  labels:
{{ include "stator.labels" . | indent 4 }}
{{- with $values.podAnnotations }}
  annotations:
{{ toYaml . | indent 4 }}
{{- end }}
spec:
{{ include "stator.pod" . | indent 2 }}
  # The drain, and a minute for the engine to stop.
  terminationGracePeriodSeconds: {{ add $values.drainSecs 60 }}
{{- if $values.gpuClass }}
  resourceClaims:
    - { name: gpus, resourceClaimTemplateName: {{ include "stator.claimTemplate" . }} }
{{- end }}
  containers:
    - name: main
      image: {{ include "stator.image" (dict "root" $root "image" $image) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ include "stator.workerArguments" (merge (dict "isNode" (.isNode | default false)) $values) }}
      env:
{{ include "stator.env" (dict "own" $own "secrets" $secrets "extra" $values.env "path" (printf "workers.%s.env" .pool)) | indent 8 }}
      ports:
        - { name: plane, containerPort: 8800 }
        - { name: status, containerPort: 9100 }
{{ include "stator.workerProbes" $values | indent 6 }}
      resources:
{{- $resources := deepCopy $values.resources }}
{{- if $values.gpuClass }}
{{- $_ := set $resources "claims" (list (dict "name" "gpus")) }}
{{- else if gt (int $values.gpus) 0 }}
{{- $_ := set $resources "limits" (merge (dict "nvidia.com/gpu" (int $values.gpus)) ($resources.limits | default dict)) }}
{{- end }}
{{ toYaml $resources | indent 8 }}
      securityContext:
{{ include "stator.containerSecurity" . | indent 8 }}
      volumeMounts:
        - { name: tmp, mountPath: /tmp }
{{- if $values.sharedMemory }}
        - { name: shm, mountPath: /dev/shm }
{{- end }}
{{- if not $isMock }}
        - { name: models, mountPath: /models }
{{- end }}
{{- with include "stator.natsMount" $root }}{{ . | nindent 8 }}{{- end }}
{{- if and $root.Values.endpointPicker.enabled (not .isNode) }}
{{ include "stator.pickerSidecar" (dict "root" $root "values" $values) | indent 4 }}
{{- end }}
  volumes:
{{ include "stator.workerVolumes" $values | indent 4 }}
{{- with include "stator.natsVolume" $root }}{{ . | nindent 4 }}{{- end }}
{{- end -}}

{{/* Probes of a worker: values of the pool. */}}
{{- define "stator.workerProbes" -}}
startupProbe:
  httpGet: { path: /health, port: status }
  periodSeconds: 5
  failureThreshold: {{ div (add .startSecs 4) 5 }}
# /live fails while the engine is down, but not while a worker drains. An engine gets two minutes to come back.
livenessProbe:
  httpGet: { path: /live, port: status }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 12
# Discovery lists a worker while its pod is ready.
readinessProbe:
  httpGet: { path: /health, port: status }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{/* Volumes of a worker: values of the pool. */}}
{{- define "stator.workerVolumes" -}}
- name: tmp
  emptyDir: { sizeLimit: 32Gi }
{{- with .sharedMemory }}
- name: shm
  emptyDir: { medium: Memory, sizeLimit: {{ . }} }
{{- end }}
{{- if ne .engine "mocker" }}
{{- $cache := .cache | default dict }}
- name: models
{{- if $cache.claim }}
  persistentVolumeClaim: { claimName: {{ $cache.claim }} }
{{- else }}
  emptyDir: { sizeLimit: {{ $cache.size | default "100Gi" }} }
{{- end }}
{{- end }}
{{- end -}}
