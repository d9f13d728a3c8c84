{{/*
A Deployment of `stator frontend`, which serves clients or is a resident router: { root, component, values, own, ports,
preStopSecs, path? }. `own` has the variables of its role. It is told to stop after preStopSecs, in which the cluster stops
sending it new connections.
*/}}
{{- define "stator.edge" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $isEdge := eq .component "frontend" -}}
{{- $own := merge (dict
  "DYN_HTTP_PORT" "8000"
  "DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS" $values.drainSecs
  "DYN_ROUTER_MODE" "kv"
  "STATOR_ARTIFACTS_CACHE_DIR" "/tmp/stator"
) .own (include "stator.fleetEnv" (dict "root" $root "role" "router") | fromJson) -}}
{{- $secrets := merge (dict
  "STATOR_ADMIN_KEY" (dict "secret" $root.Values.secret "key" "admin-key" "optional" true)
) (include "stator.fleetSecrets" (dict "root" $root "role" "router") | fromJson) -}}
{{- $keys := ternary $root.Values.apiKeys.secret "" $isEdge -}}
{{- if $keys -}}
{{- $_ := set $own "STATOR_KEYS_FILE" (printf "/etc/stator/keys/%s" $root.Values.apiKeys.key) -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "stator.account" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
{{ include "stator.labels" . | indent 4 }}
spec:
  replicas: {{ $values.replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  selector:
    matchLabels:
{{ include "stator.selector" . | indent 6 }}
  template:
    metadata:
      labels:
{{ include "stator.labels" . | indent 8 }}
{{- with $values.podAnnotations }}
      annotations:
{{ toYaml . | indent 8 }}
{{- end }}
    spec:
{{ include "stator.pod" . | indent 6 }}
      terminationGracePeriodSeconds: {{ add $values.drainSecs .preStopSecs 10 }}
      containers:
        - name: main
          image: {{ include "stator.image" (dict "root" $root "image" $root.Values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ concat (list "frontend") $values.arguments | toJson }}
          env:
{{ include "stator.env" (dict "own" $own "secrets" $secrets "extra" $values.env "path" (.path | default (printf "%s.env" .component))) | indent 12 }}
          ports:
{{- range $name, $port := .ports }}
            - { name: {{ $name }}, containerPort: {{ $port }} }
{{- end }}
          startupProbe:
            httpGet: { path: /live, port: http }
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: { path: /live, port: http }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: { path: /health, port: http }
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 3
{{- if .preStopSecs }}
          lifecycle:
            preStop:
              sleep: { seconds: {{ .preStopSecs }} }
{{- end }}
          resources:
{{ toYaml $values.resources | indent 12 }}
          securityContext:
{{ include "stator.containerSecurity" . | indent 12 }}
          volumeMounts:
            - { name: tmp, mountPath: /tmp }
{{- if $keys }}
            - { name: keys, mountPath: /etc/stator/keys, readOnly: true }
{{- end }}
{{- with include "stator.natsMount" $root }}{{ . | nindent 12 }}{{- end }}
      volumes:
        - name: tmp
          emptyDir: { sizeLimit: 4Gi }
{{- if $keys }}
        - name: keys
          secret: { secretName: {{ $keys }}, defaultMode: 0440 }
{{- end }}
{{- with include "stator.natsVolume" $root }}{{ . | nindent 8 }}{{- end }}
{{- end -}}
