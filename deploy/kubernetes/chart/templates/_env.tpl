{{/*
Variables of a container: { own, secrets, extra, path }. A variable of `extra` that the chart sets itself is refused,
because it would have no effect, or would part the process from its probes and ports.
*/}}
{{- define "stator.env" -}}
{{- $secrets := .secrets | default dict -}}
{{- range $name, $value := .extra }}
{{- if or (hasKey $.own $name) (hasKey $secrets $name) (has $name (list "POD_NAME" "POD_UID" "POD_NAMESPACE")) }}
{{- fail (printf "%s.%s: the chart sets this variable itself; values.yaml says by which value" $.path $name) }}
{{- end }}
{{- end -}}
- { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
- { name: POD_UID, valueFrom: { fieldRef: { fieldPath: metadata.uid } } }
- { name: POD_NAMESPACE, valueFrom: { fieldRef: { fieldPath: metadata.namespace } } }
{{- range $name, $value := .own }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- range $name, $ref := $secrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: { name: {{ $ref.secret }}, key: {{ $ref.key }}{{ if $ref.optional }}, optional: true{{ end }} }
{{- end }}
{{- range $name, $value := .extra }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end -}}

{{/* Variables that each process of the fleet has, as JSON: { root, role }, where role is the user at NATS. */}}
{{- define "stator.fleetEnv" -}}
{{- $values := .root.Values -}}
{{- $env := dict
  "DYN_DISCOVERY_BACKEND" "kubernetes"
  "DYN_KUBE_DISCOVERY_MODE" "pod"
  "DYN_NAMESPACE" $values.fleetNamespace
  "DYN_REQUEST_PLANE" "tcp"
  "DYN_TCP_RPC_PORT" "8800"
  "DYN_EVENT_PLANE" $values.events
  "DYN_LOGGING_JSONL" "true"
  "HOME" "/tmp"
-}}
{{- if eq $values.events "nats" -}}
{{- $_ := set $env "NATS_SERVER" (include "stator.natsUrl" .root) -}}
{{- if include "stator.natsUsers" .root -}}
{{- $_ := set $env "NATS_AUTH_USERNAME" .role -}}
{{- end -}}
{{- if include "stator.natsCa" .root -}}
{{- $_ := set $env "NATS_TLS_CA_CERT_PATH" "/etc/nats/ca.crt" -}}
{{- end -}}
{{- if $values.nats.tls.client -}}
{{- $_ := set $env "NATS_TLS_CLIENT_CERT_PATH" "/etc/nats/tls.crt" -}}
{{- $_ := set $env "NATS_TLS_CLIENT_KEY_PATH" "/etc/nats/tls.key" -}}
{{- end -}}
{{- else -}}
{{- $_ := set $env "STATOR_PLANE_OPEN" "true" -}}
{{- end -}}
{{- $env | toJson -}}
{{- end -}}

{{/* Variables from the fleet's Secret, as JSON: { root, role }, where role is the user at NATS: worker or router. */}}
{{- define "stator.fleetSecrets" -}}
{{- $secret := .root.Values.secret -}}
{{- $env := dict
  "STATOR_PLANE_TOKEN" (dict "secret" $secret "key" "plane-token")
  "STATOR_PLANE_TOKEN_PREVIOUS" (dict "secret" $secret "key" "plane-token-previous" "optional" true)
-}}
{{- if include "stator.natsUsers" .root -}}
{{- $_ := set $env "NATS_AUTH_PASSWORD" (dict "secret" $secret "key" (printf "nats-%s-password" .role)) -}}
{{- end -}}
{{- $env | toJson -}}
{{- end -}}
