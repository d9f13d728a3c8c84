{{/* Name of the port with the metrics of the planner that has this place in its pod. */}}
{{- define "stator.plannerPort" -}}
{{- if . -}}metrics-{{ add . 1 }}{{- else -}}metrics{{- end -}}
{{- end -}}

{{/* The planner of one model: { root, at, fleet, count }. The first one has the name `main`. */}}
{{- define "stator.plannerContainer" -}}
{{- $root := .root -}}
{{- $values := .root.Values.planner -}}
{{- $metrics := add 9085 (mul 100 .at) -}}
{{- $own := merge (dict
  "STATOR_PLANNER_CONNECTOR" "kubernetes"
  "STATOR_PLANNER_FLEETS" "/etc/stator/fleets.json"
  "STATOR_PLANNER_DIR" "/data/planner"
  "STATOR_PLANNER_METRICS_HOST" "auto"
  "PLANNER_PROMETHEUS_PORT" $metrics
) (omit (include "stator.fleetEnv" (dict "root" $root "role" "worker") | fromJson) "DYN_REQUEST_PLANE" "DYN_TCP_RPC_PORT" "STATOR_PLANE_OPEN") -}}
{{- if gt (int .count) 1 -}}
{{- $_ := set $own "STATOR_PLANNER_MODEL" .fleet.name -}}
{{- end -}}
{{- $secrets := omit (include "stator.fleetSecrets" (dict "root" $root "role" "worker") | fromJson) "STATOR_PLANE_TOKEN" "STATOR_PLANE_TOKEN_PREVIOUS" -}}
{{- $port := include "stator.plannerPort" .at -}}
{{- $name := "main" -}}
{{- if .at -}}
{{- $word := regexReplaceAll "[^a-z0-9]+" (lower .fleet.name) "-" | trunc 40 | trimAll "-" -}}
{{- $name = printf "%d-%s" (int (add .at 1)) $word | trimSuffix "-" -}}
{{- end -}}
- name: {{ $name }}
  image: {{ include "stator.image" (dict "root" $root "image" $root.Values.image) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args: {{ concat (list "planner") $values.arguments | toJson }}
  env:
{{ include "stator.env" (dict "own" $own "secrets" $secrets "extra" $values.env "path" "planner.env") | indent 4 }}
  ports:
    - { name: {{ $port }}, containerPort: {{ $metrics }} }
  startupProbe:
    httpGet: { path: /metrics, port: {{ $port }} }
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 24
  livenessProbe:
    httpGet: { path: /metrics, port: {{ $port }} }
    periodSeconds: 30
    timeoutSeconds: 10
    failureThreshold: 4
  readinessProbe:
    httpGet: { path: /metrics, port: {{ $port }} }
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  resources:
{{ toYaml $values.resources | indent 4 }}
  securityContext:
{{ include "stator.containerSecurity" . | indent 4 }}
  volumeMounts:
    - { name: tmp, mountPath: /tmp }
    - { name: data, mountPath: /data }
    - { name: fleets, mountPath: /etc/stator, readOnly: true }
{{- with include "stator.natsMount" $root }}{{ . | nindent 4 }}{{- end }}
{{- end -}}
