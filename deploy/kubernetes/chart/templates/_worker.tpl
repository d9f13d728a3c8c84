{{/* Values of a pool with their defaults, as JSON: { name, pool }. Refuses values that do not go together. */}}
{{- define "stator.poolValues" -}}
{{- $path := printf "workers.%s" .name -}}
{{- $isMock := eq .pool.engine "mocker" -}}
{{- $defaults := dict
  "replicas" 1
  "mode" "agg"
  "gpus" (ternary 0 1 $isMock)
  "nodes" 1
  "autoscaled" false
  "gpuClass" ""
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
{{- if and $isMock (gt (int $values.nodes) 1) -}}
{{- fail (printf "%s.nodes: the mocker runs in one pod" $path) -}}
{{- end -}}
{{- if and $values.exclusiveTopology (eq (int $values.nodes) 1) -}}
{{- fail (printf "%s.exclusiveTopology: is for workers of several pods; set nodes" $path) -}}
{{- end -}}
{{- if and $values.autoscaled (hasKey .pool "replicas") -}}
{{- fail (printf "%s.replicas: your scaler decides it (autoscaled); leave it out" $path) -}}
{{- end -}}
{{- if gt (int $values.nodes) 1 -}}
{{- $own := list "--nnodes" "--node-rank" "--master-addr" "--master-port" "--dist-init-addr" "--headless" -}}
{{- range $values.arguments -}}
{{- if has (regexReplaceAll "[= ].*" . "" | replace "_" "-") $own -}}
{{- fail (printf "%s.arguments: the chart sets %s for workers of several pods" $path .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.gpuClass (eq (int $values.gpus) 0) -}}
{{- fail (printf "%s.gpuClass: the pool has no GPUs" $path) -}}
{{- end -}}
{{- $values | toJson -}}
{{- end -}}

{{/* Kind of the object that runs a pool: values of the pool. */}}
{{- define "stator.workloadKind" -}}
{{- ternary "LeaderWorkerSet" "Deployment" (gt (int .nodes) 1) -}}
{{- end -}}

{{/*
Arguments of `stator worker`, as JSON: values of the pool, and isNode for a pod that runs a part of an engine whose
first pod is another one.
*/}}
{{- define "stator.workerArguments" -}}
{{- $model := ternary "--model-name" "--model" (eq .engine "mocker") -}}
{{- $args := list "worker" (printf "--engine=%s" .engine) (printf "%s=%s" $model .model) -}}
{{- if ne .mode "agg" -}}
{{- $args = append $args (printf "--disaggregation-mode=%s" .mode) -}}
{{- end -}}
{{- $args = concat $args .arguments -}}
{{- if gt (int .nodes) 1 -}}
{{- /* LeaderWorkerSet sets these variables. */ -}}
{{- $args = concat $args (list "--nnodes=$(LWS_GROUP_SIZE)" "--node-rank=$(LWS_WORKER_INDEX)") -}}
{{- $isVllm := eq .engine "vllm" -}}
{{- $args = append $args (ternary "--master-addr=$(LWS_LEADER_ADDRESS)" "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000" $isVllm) -}}
{{- if and $isVllm (not (contains "--distributed-executor-backend" (join " " .arguments))) -}}
{{- $args = append $args "--distributed-executor-backend=mp" -}}
{{- end -}}
{{- end -}}
{{- if .isNode -}}
{{- $args = append $args "--headless" -}}
{{- end -}}
{{- $args | toJson -}}
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
