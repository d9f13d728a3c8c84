{{/* Address of the NATS servers. Refuses values of TLS that do not go together. */}}
{{- define "stator.natsUrl" -}}
{{- $nats := .Values.nats -}}
{{- if $nats.enabled -}}
{{- if $nats.tls.client -}}
{{- fail "nats.tls.client: the server of the chart asks for passwords; it is for servers of your own (nats.enabled: false)" -}}
{{- end -}}
{{- if and $nats.tls.ca (not $nats.tls.secret) -}}
{{- fail "nats.tls.ca: needs nats.tls.secret, with which the server of the chart speaks TLS" -}}
{{- end -}}
{{ ternary "tls" "nats" (ne $nats.tls.secret "") }}://{{ include "stator.fullname" . }}-nats:4222
{{- else -}}
{{- $url := required "nats.url: needed with events: nats and nats.enabled: false" $nats.url -}}
{{- if $nats.tls.secret -}}
{{- fail "nats.tls.secret: is for the server of the chart; for servers of your own use nats.tls.ca and nats.tls.client" -}}
{{- end -}}
{{- if and (or $nats.tls.ca $nats.tls.client) (not (regexMatch "^(tls|wss)://" $url)) -}}
{{- fail "nats.url: must begin with tls:// or wss:// for nats.tls" -}}
{{- end -}}
{{ $url }}
{{- end -}}
{{- end -}}

{{/* `true` if processes log in to NATS as the users worker and router. */}}
{{- define "stator.natsUsers" -}}
{{- if and (eq .Values.events "nats") (or .Values.nats.enabled .Values.nats.users) -}}true{{- end -}}
{{- end -}}

{{/* Secret with the authority of the NATS servers; empty = authorities of the system, or no TLS. */}}
{{- define "stator.natsCa" -}}
{{- if eq .Values.events "nats" -}}{{ .Values.nats.tls.ca | default .Values.nats.tls.secret }}{{- end -}}
{{- end -}}

{{/* Volume with the certificates by which a process and the NATS servers know each other; empty if there are none. */}}
{{- define "stator.natsVolume" -}}
{{- $ca := include "stator.natsCa" . -}}
{{- $client := .Values.nats.tls.client -}}
{{- if and (eq .Values.events "nats") (or $ca $client) -}}
- name: nats
  projected:
    defaultMode: 0440
    sources:
{{- with $ca }}
      - secret: { name: {{ . }}, items: [{ key: ca.crt, path: ca.crt }] }
{{- end }}
{{- with $client }}
      - secret: { name: {{ . }}, items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }] }
{{- end }}
{{- end -}}
{{- end -}}

{{- define "stator.natsMount" -}}
{{- if include "stator.natsVolume" . -}}
- { name: nats, mountPath: /etc/nats, readOnly: true }
{{- end -}}
{{- end -}}
