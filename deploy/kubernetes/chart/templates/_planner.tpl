{{/*
Fleets that the planner scales, one for each model, as JSON: { fleets: [{ model, name, mode, namesOf, gpusOf }] }. `name`
is the name by which clients ask for the model. namesOf has the pools of each kind (prefill or decode; workers that do
both are decode) in the order of planner.pools, and gpusOf the GPUs of a worker. Refuses pools that do not go together.
*/}}
{{- define "stator.fleets" -}}
{{- $root := . -}}
{{- $planner := .Values.planner -}}
{{- $models := list -}}
{{- $fleetOf := dict -}}
{{- $seen := dict -}}
{{- if not $planner.pools -}}
{{- fail "planner.pools: needed with planner.enabled: the pools of workers that the planner scales" -}}
{{- end -}}
{{- range $at, $entry := $planner.pools -}}
{{- $path := printf "planner.pools[%d]" $at -}}
{{- $values := include "stator.plannedPool" (dict "root" $root "path" $path "entry" $entry "seen" $seen) | fromJson -}}
{{- $_ := set $seen $entry.pool true -}}
{{- $model := $values.model -}}
{{- if not (hasKey $fleetOf $model) -}}
{{- $models = append $models $model -}}
{{- $_ := set $fleetOf $model (dict "model" $model "mode" "" "namesOf" dict "gpusOf" dict) -}}
{{- end -}}
{{- $fleet := get $fleetOf $model -}}
{{- $isSplit := ne $values.mode "agg" -}}
{{- if and $fleet.mode (ne (eq $fleet.mode "agg") (not $isSplit)) -}}
{{- fail (printf "%s.pool: %s has the mode %s, which does not go together with %s" $path $entry.pool $values.mode $fleet.mode) -}}
{{- end -}}
{{- $mode := ternary $values.mode "disagg" (or (not $fleet.mode) (eq $fleet.mode $values.mode)) -}}
{{- $_ := set $fleet "mode" $mode -}}
{{- $kind := ternary "prefill" "decode" (eq $values.mode "prefill") -}}
{{- $gpus := max 1 (mul (int $values.gpus) (int $values.nodes)) -}}
{{- if and (hasKey $fleet.gpusOf $kind) (ne (int $gpus) (int (get $fleet.gpusOf $kind))) -}}
{{- fail (printf "workers.%s.gpus: workers of one model and kind need the same number, here %d" $entry.pool (int (get $fleet.gpusOf $kind))) -}}
{{- end -}}
{{- $_ := set $fleet.gpusOf $kind $gpus -}}
{{- $_ := set $fleet.namesOf $kind (append (get $fleet.namesOf $kind | default list) $entry.pool) -}}
{{- end -}}
{{- $served := list -}}
{{- range $root.Values.workers -}}
{{- $served = append $served .model -}}
{{- end -}}
{{- include "stator.nameFleets" (dict "planner" $planner "models" $models "fleetOf" $fleetOf "served" $served) -}}
{{- end -}}

{{/* Values of a pool of the planner, as JSON: { root, path, entry, seen }. */}}
{{- define "stator.plannedPool" -}}
{{- $name := .entry.pool -}}
{{- $pool := get .root.Values.workers $name -}}
{{- if not $pool -}}
{{- fail (printf "%s.pool: workers has no pool %s" .path $name) -}}
{{- end -}}
{{- if hasKey .seen $name -}}
{{- fail (printf "%s.pool: %s is there twice" .path $name) -}}
{{- end -}}
{{- if hasKey $pool "replicas" -}}
{{- fail (printf "workers.%s.replicas: the planner decides it; leave it out, and set min and max of %s" $name .path) -}}
{{- end -}}
{{- if and $pool.autoscaled (not (include "stator.isAdvisory" .root)) -}}
{{- fail (printf "workers.%s.autoscaled: the planner scales the pool; leave it out, or set planner.config.advisory" $name) -}}
{{- end -}}
{{- if gt (int .entry.min) (int .entry.max) -}}
{{- fail (printf "%s.min: must not exceed max (%d)" .path (int .entry.max)) -}}
{{- end -}}
{{- include "stator.poolValues" (dict "name" $name "pool" $pool) -}}
{{- end -}}

{{/* Fleets with the names of their models, as JSON: { planner, models, fleetOf, served }. */}}
{{- define "stator.nameFleets" -}}
{{- $planner := .planner -}}
{{- $fleets := list -}}
{{- $names := dict -}}
{{- if and $planner.model (gt (len .models) 1) -}}
{{- fail (printf "planner.model: the pools serve %d models; name them in planner.models" (len .models)) -}}
{{- end -}}
{{- range $model, $_ := $planner.models -}}
{{- if not (has $model $.served) -}}
{{- fail (printf "planner.models: no pool of workers serves %s" $model) -}}
{{- end -}}
{{- end -}}
{{- range .models -}}
{{- $own := get $planner.models . | default dict -}}
{{- $name := $own.name | default $planner.model | default . -}}
{{- if hasKey $names $name -}}
{{- fail (printf "planner.models: two models have the name %s" $name) -}}
{{- end -}}
{{- $_ := set $names $name true -}}
{{- $fleets = append $fleets (merge (dict "name" $name) (get $.fleetOf .)) -}}
{{- end -}}
{{- dict "fleets" $fleets | toJson -}}
{{- end -}}

{{/* Content of --planner-fleets, as JSON. */}}
{{- define "stator.plannerFleets" -}}
{{- $all := list -}}
{{- range $at, $fleet := (include "stator.fleets" . | fromJson).fleets -}}
{{- $all = append $all (include "stator.plannerFleet" (dict "root" $ "at" $at "fleet" $fleet) | fromJson) -}}
{{- end -}}
{{- $file := dict "fleets" $all -}}
{{- with .Values.planner.gpusMax -}}
{{- $_ := set $file "gpusMax" (int .) -}}
{{- end -}}
{{- $file | toJson -}}
{{- end -}}

{{/*
One fleet of --planner-fleets, as JSON: { root, at, fleet }. A mock worker uses no GPU, but counts as one. A worker that
the planner ends gets the time that each of its pods has.
*/}}
{{- define "stator.plannerFleet" -}}
{{- $root := .root -}}
{{- $fleet := .fleet -}}
{{- $planner := .root.Values.planner -}}
{{- $given := dict -}}
{{- range $planner.pools -}}
{{- $_ := set $given .pool . -}}
{{- end -}}
{{- $pools := dict -}}
{{- $gpusMax := 0 -}}
{{- $config := dict "mode" $fleet.mode "min_endpoint" 0 "report_interval_hours" nil -}}
{{- if .at -}}
{{- /* Each planner of the pod has ports of its own. */ -}}
{{- $_ := set $config "live_dashboard_port" (add 8080 (mul 100 .at)) -}}
{{- $_ := set $config "control_api_port" (add 9086 (mul 100 .at)) -}}
{{- end -}}
{{- range $kind, $names := $fleet.namesOf -}}
{{- $options := list -}}
{{- $least := 0 -}}
{{- $gpus := int (get $fleet.gpusOf $kind) -}}
{{- $drains := list -}}
{{- range $at, $name := $names -}}
{{- $entry := get $given $name -}}
{{- $values := include "stator.poolValues" (dict "name" $name "pool" (get $root.Values.workers $name)) | fromJson -}}
{{- $market := $entry.market | default "on-demand" -}}
{{- $object := printf "%s-%s" (include "stator.account" (dict "root" $root "component" "worker")) $name -}}
{{- $workload := printf "%s/%s" (include "stator.workloadKind" $values) $object -}}
{{- $options = append $options (dict "id" (printf "%d-%s" $at $market) "workload" $workload "market" $market "min" (int $entry.min) "max" (int $entry.max)) -}}
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
{{- $own := (get $planner.models $fleet.model | default dict).config | default dict -}}
{{- range $keys := list $planner.config $own -}}
{{- range $key, $value := $keys -}}
{{- $_ := set $config $key $value -}}
{{- end -}}
{{- end -}}
{{- include "stator.checkRates" (dict "root" $root "fleet" $fleet "config" $config) -}}
{{- $cluster := dict "kind" "kubernetes" "namespace" $root.Release.Namespace -}}
{{- dict "namespace" $root.Values.fleetNamespace "model" $fleet.name "cluster" $cluster "pools" $pools "planner" $config | toJson -}}
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

{{/* Models that frontends hold requests for, as --planned-models takes them: those that may have no worker. */}}
{{- define "stator.heldModels" -}}
{{- $models := list -}}
{{- if .Values.planner.enabled -}}
{{- range (include "stator.fleets" . | fromJson).fleets -}}
{{- $models = append $models .name -}}
{{- end -}}
{{- end -}}
{{- range .Values.workers -}}
{{- if and .autoscaled (not $.Values.planner.enabled) -}}
{{- $own := get $.Values.planner.models .model | default dict -}}
{{- $models = append $models ($own.name | default .model) -}}
{{- end -}}
{{- end -}}
{{- range $at, $model := uniq $models -}}
{{- if $at }},{{ end }}{{ $.Values.fleetNamespace }}#{{ $model }}
{{- end -}}
{{- end -}}

{{/* `true` if the planner or a scaler of the operator sets the number of pods of the pool: { root, name, values }. */}}
{{- define "stator.isScaled" -}}
{{- $isPlanned := false -}}
{{- if .root.Values.planner.enabled -}}
{{- range .root.Values.planner.pools -}}
{{- if eq .pool $.name -}}{{- $isPlanned = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if or $isPlanned .values.autoscaled -}}true{{- end -}}
{{- end -}}

{{/* `true` if the planner only says what it would do. */}}
{{- define "stator.isAdvisory" -}}
{{- if .Values.planner.config.advisory -}}true{{- end -}}
{{- end -}}

{{/*
Replicas of a pool that something else scales: none. But if its workload had a number in an earlier release, Helm would
set it to one as soon as the number is gone, so it then keeps the number that it has: { root, kind, name }.
*/}}
{{- define "stator.scaledReplicas" -}}
{{- $api := ternary "apps/v1" "leaderworkerset.x-k8s.io/v1" (eq .kind "Deployment") -}}
{{- $live := lookup $api .kind .root.Release.Namespace .name -}}
{{- if $live -}}
{{- $annotations := $live.metadata.annotations | default dict -}}
{{- if ne (get $annotations "stator/replicas") "planner" -}}{{ int $live.spec.replicas }}{{- end -}}
{{- end -}}
{{- end -}}
