{{/*
The frontend beside a worker, which serves HTTP for requests that an endpoint picker has sent to its pod: { root, values },
where values are those of the pool.
*/}}
{{- define "stator.pickerSidecar" -}}
{{- $root := .root -}}
{{- $picker := $root.Values.endpointPicker -}}
{{- $own := merge (dict
  "DYN_HTTP_PORT" "8000"
  "DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS" .values.drainSecs
  "DYN_ROUTER_MODE" "direct"
  "STATOR_ARTIFACTS_CACHE_DIR" "/tmp/stator"
) (include "stator.fleetEnv" (dict "root" $root "role" "worker") | fromJson) -}}
{{- $secrets := include "stator.fleetSecrets" (dict "root" $root "role" "worker") | fromJson -}}
- name: http
  image: {{ include "stator.image" (dict "root" $root "image" $root.Values.image) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args: [frontend]
  env:
{{ include "stator.env" (dict "own" $own "secrets" $secrets "extra" $picker.sidecar.env "path" "endpointPicker.sidecar.env") | indent 4 }}
  ports:
    - { name: http, containerPort: 8000 }
  livenessProbe:
    httpGet: { path: /live, port: http }
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: {{ div (add .values.drainSecs 69) 10 }}
  # Not /health: that waits for workers, and discovery shows a worker only when its whole pod is ready.
  readinessProbe:
    httpGet: { path: /live, port: http }
    periodSeconds: 2
    timeoutSeconds: 2
    failureThreshold: 3
  resources:
{{ toYaml $picker.sidecar.resources | indent 4 }}
  securityContext:
{{ include "stator.containerSecurity" . | indent 4 }}
  volumeMounts:
    - { name: tmp, mountPath: /tmp, subPath: http }
{{- with include "stator.natsMount" $root }}{{ . | nindent 4 }}{{- end }}
{{- end -}}

{{/* A policy that lets a picker connect to a component: { root, component, ports }; without ports, to all of them. */}}
{{- define "stator.pickerPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "stator.account" . }}-for-picker
  namespace: {{ .root.Release.Namespace }}
  labels:
{{ include "stator.labels" . | indent 4 }}
spec:
  podSelector:
    matchLabels:
{{ include "stator.selector" . | indent 6 }}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
{{ include "stator.selector" (dict "root" .root "component" "picker") | indent 14 }}
{{- with .ports }}
      ports:
{{- range . }}
        - { port: {{ . }} }
{{- end }}
{{- end }}
{{- end -}}
