{{/*
Fleet that the planner scales, as JSON: { model, mode, namesOf }, where namesOf has the pools of each kind (prefill or
decode; workers that do both are decode) in the order of planner.pools. Refuses pools that do not go together.
*/}}
{{- define "stator.fleet" -}}
{{- $root := . -}}
{{- $planner := .Values.planner -}}
{{- $fleet := dict "model" "" "mode" "" "namesOf" dict -}}
{{- $gpusOf := dict -}}
{{- $seen := dict -}}
{{- if not $planner.pools -}}
{{- fail "planner.pools: needed with planner.enabled: the pools of workers that the planner scales" -}}
{{- end -}}
{{- range $at, $entry := $planner.pools -}}
{{- $path := printf "planner.pools[%d]" $at -}}
{{- $pool := get $root.Values.workers $entry.pool -}}
{{- if not $pool -}}
{{- fail (printf "%s.pool: workers has no pool %s" $path $entry.pool) -}}
{{- end -}}
{{- if hasKey $seen $entry.pool -}}
{{- fail (printf "%s.pool: %s is there twice" $path $entry.pool) -}}
{{- end -}}
{{- $_ := set $seen $entry.pool true -}}
{{- if hasKey $pool "replicas" -}}
{{- fail (printf "workers.%s.replicas: the planner decides it; leave it out, and set min and max of %s" $entry.pool $path) -}}
{{- end -}}
{{- if gt (int $entry.min) (int $entry.max) -}}
{{- fail (printf "%s.min: must not exceed max (%d)" $path (int $entry.max)) -}}
{{- end -}}
{{- $values := include "stator.poolValues" (dict "name" $entry.pool "pool" $pool) | fromJson -}}
{{- if and $fleet.model (ne $fleet.model $values.model) -}}
{{- fail (printf "%s.pool: %s serves %s, but the planner scales pools of one model, here %s" $path $entry.pool $values.model $fleet.model) -}}
{{- end -}}
{{- $_ := set $fleet "model" $values.model -}}
{{- $isSplit := ne $values.mode "agg" -}}
{{- if and $fleet.mode (ne (eq $fleet.mode "agg") (not $isSplit)) -}}
{{- fail (printf "%s.pool: %s has the mode %s, which does not go together with %s" $path $entry.pool $values.mode $fleet.mode) -}}
{{- end -}}
{{- $mode := ternary $values.mode "disagg" (or (not $fleet.mode) (eq $fleet.mode $values.mode)) -}}
{{- $_ := set $fleet "mode" $mode -}}
{{- $kind := ternary "prefill" "decode" (eq $values.mode "prefill") -}}
{{- $gpus := max 1 (int $values.gpus) -}}
{{- if and (hasKey $gpusOf $kind) (ne $gpus (get $gpusOf $kind)) -}}
{{- fail (printf "workers.%s.gpus: pools of one kind need the same number, here %d" $entry.pool (get $gpusOf $kind)) -}}
{{- end -}}
{{- $_ := set $gpusOf $kind $gpus -}}
{{- $_ := set $fleet.namesOf $kind (append (get $fleet.namesOf $kind | default list) $entry.pool) -}}
{{- end -}}
{{- $_ := set $fleet "model" ($planner.model | default $fleet.model) -}}
{{- $fleet | toJson -}}
{{- end -}}

{{/*
Content of --planner-fleets, as JSON. A mock worker uses no GPU, but counts as one. A worker that the planner ends gets
the time that each of its pods has.
*/}}
{{- define "stator.plannerFleets" -}}
{{- $root := . -}}
{{- $planner := .Values.planner -}}
{{- $fleet := include "stator.fleet" . | fromJson -}}
{{- $given := dict -}}
{{- range $planner.pools -}}
{{- $_ := set $given .pool . -}}
{{- end -}}
{{- $pools := dict -}}
{{- $gpusMax := 0 -}}
{{- $config := dict "mode" $fleet.mode "min_endpoint" 0 "report_interval_hours" nil -}}
{{- range $kind, $names := $fleet.namesOf -}}
{{- $options := list -}}
{{- $least := 0 -}}
{{- $gpus := 1 -}}
{{- $drains := list -}}
{{- range $at, $name := $names -}}
{{- $entry := get $given $name -}}
{{- $values := include "stator.poolValues" (dict "name" $name "pool" (get $root.Values.workers $name)) | fromJson -}}
{{- $market := $entry.market | default "on-demand" -}}
{{- $workload := printf "Deployment/%s-%s" (include "stator.account" (dict "root" $root "component" "worker")) $name -}}
{{- $options = append $options (dict "id" (printf "%d-%s" $at $market) "workload" $workload "market" $market "min" (int $entry.min) "max" (int $entry.max)) -}}
{{- $gpus = max 1 (int $values.gpus) -}}
{{- $gpusMax = add $gpusMax (mul $gpus (int $entry.max)) -}}
{{- $least = add $least (int $entry.min) -}}
{{- $drains = append $drains (int $values.drainSecs) -}}
{{- end -}}
{{- $drainSecs := first $drains -}}
{{- range $drains -}}
{{- $drainSecs = min $drainSecs . -}}
{{- end -}}
{{- $_ := set $pools $kind (dict "options" $options "gpusPerReplica" $gpus "startSecs" (int $planner.startSecs) "drainSecs" $drainSecs "unschedulableSecs" (int $planner.unschedulableSecs)) -}}
{{- if ne $fleet.mode "disagg" -}}
{{- $_ := set $config "min_endpoint" $least -}}
{{- else if gt (int $least) 0 -}}
{{- $_ := set $config (printf "%s_min_endpoint" $kind) $least -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "max_gpu_budget" $gpusMax -}}
{{- range $key, $value := $planner.config -}}
{{- $_ := set $config $key $value -}}
{{- end -}}
{{- include "stator.checkRates" (dict "root" $root "fleet" $fleet "config" $config) -}}
{{- $cluster := dict "kind" "kubernetes" "namespace" $root.Release.Namespace -}}
{{- $one := dict "namespace" $root.Values.fleetNamespace "model" $fleet.model "cluster" $cluster "pools" $pools "planner" $config -}}
{{- dict "fleets" (list $one) | toJson -}}
{{- end -}}

{{/* Refuses the law rate without what a worker serves, which only mock engines report: { root, fleet, config }. */}}
{{- define "stator.checkRates" -}}
{{- $config := .config -}}
{{- $mode := .fleet.mode -}}
{{- $root := .root -}}
{{- if eq ($config.law | default $config.optimization_target | default "rate") "rate" -}}
{{- range $kind, $names := .fleet.namesOf -}}
{{- $key := ternary "rate_requests_per_second" (printf "rate_%s_requests_per_second" $kind) (eq $mode "agg") -}}
{{- range $names -}}
{{- $engine := (get $root.Values.workers .).engine -}}
{{- if and (ne $engine "mocker") (not (get $config $key)) -}}
{{- fail (printf "planner.config.%s: needed with the law rate: requests a second that a worker of %s serves within its targets" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* `true` if the planner scales the pool: { root, name }. */}}
{{- define "stator.isPlanned" -}}
{{- if .root.Values.planner.enabled -}}
{{- range .root.Values.planner.pools -}}
{{- if eq .pool $.name -}}true{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Replicas of a planned pool: none. But if the Deployment had a number in an earlier release, Helm would set it to one as
soon as the number is gone, so it then keeps the number that the Deployment has: { root, deployment }.
*/}}
{{- define "stator.plannedReplicas" -}}
{{- $live := lookup "apps/v1" "Deployment" .root.Release.Namespace .deployment -}}
{{- if $live -}}
{{- $annotations := $live.metadata.annotations | default dict -}}
{{- if ne (get $annotations "stator/replicas") "planner" -}}{{ int $live.spec.replicas }}{{- end -}}
{{- end -}}
{{- end -}}
