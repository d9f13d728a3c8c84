{{/* Values of a pool with their defaults, as JSON: { name, pool }. Refuses values that do not go together. */}}
{{- define "stator.poolValues" -}}
{{- $path := printf "workers.%s" .name -}}
{{- $isMock := eq .pool.engine "mocker" -}}
{{- $defaults := dict
  "replicas" 1
  "mode" "agg"
  "gpus" (ternary 0 1 $isMock)
  "arguments" list
  "env" dict
  "startSecs" (ternary 120 1800 $isMock)
  "moveAfterSecs" 60
  "drainSecs" 300
  "rollout" "surge"
  "podAnnotations" dict
-}}
{{- if not $isMock -}}
{{- $_ := set $defaults "sharedMemory" "8Gi" -}}
{{- end -}}
{{- $small := dict "requests" (dict "cpu" "250m" "memory" "512Mi") "limits" (dict "memory" "1Gi") -}}
{{- $large := dict "requests" (dict "cpu" "4" "memory" "32Gi") "limits" (dict "memory" "64Gi") -}}
{{- $_ := set $defaults "resources" (ternary $small $large $isMock) -}}
{{- $values := mergeOverwrite $defaults (deepCopy .pool) -}}
{{- if gt (int $values.moveAfterSecs) (int $values.drainSecs) -}}
{{- fail (printf "%s.moveAfterSecs: must not exceed drainSecs (%d)" $path (int $values.drainSecs)) -}}
{{- end -}}
{{- if and $isMock (gt (int $values.gpus) 0) -}}
{{- fail (printf "%s.gpus: the mocker uses no GPUs" $path) -}}
{{- end -}}
{{- $values | toJson -}}
{{- end -}}

{{/* Arguments of `stator worker`, as JSON: values of the pool. */}}
{{- define "stator.workerArguments" -}}
{{- $model := ternary "--model-name" "--model" (eq .engine "mocker") -}}
{{- $args := list "worker" (printf "--engine=%s" .engine) (printf "%s=%s" $model .model) -}}
{{- if ne .mode "agg" -}}
{{- $args = append $args (printf "--disaggregation-mode=%s" .mode) -}}
{{- end -}}
{{- concat $args .arguments | toJson -}}
{{- end -}}

{{/* Variables that the chart sets for a worker, as JSON: { root, values }. */}}
{{- define "stator.workerEnv" -}}
{{- $own := merge (dict
  "DYN_SYSTEM_PORT" "9100"
  "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS" .values.moveAfterSecs
  "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS" .values.drainSecs
) (include "stator.fleetEnv" (dict "root" .root "role" "worker") | fromJson) -}}
{{- if ne .values.engine "mocker" -}}
{{- /* PyTorch asks for the name of its user, which the image does not have. */ -}}
{{- $_ := set $own "USER" "stator" -}}
{{- $_ := set $own "HF_HOME" "/models" -}}
{{- $_ := set $own "STATOR_ENGINE_START_TIMEOUT_SECS" .values.startSecs -}}
{{- end -}}
{{- $own | toJson -}}
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
