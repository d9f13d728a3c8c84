import { edges, worker, workers } from '../row.ts';

/** Rows of "Disaggregation". */
export const disaggregationRows = {
  decodeFallback: edges.bool({
    names: '--decode-fallback DYN_DECODE_FALLBACK',
    source: 'Dynamo',
    about: 'Lets decode workers compute prompts themselves when no prefill worker is available.',
  }),
  enforceDisagg: edges.bool({
    names: '--enforce-disagg DYN_ENFORCE_DISAGG',
    source: '1.6.1: ignored',
    about: 'Fails a request whose prefill stage fails, instead of falling back.',
  }),
  routerConditionalDisagg: edges.bool({
    names: '--router-conditional-disagg DYN_ROUTER_CONDITIONAL_DISAGG',
    about: 'Lets the router skip remote prefill.',
  }),
  routerConditionalDisaggConfig: edges.json({
    names: '--router-conditional-disagg-config DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG',
    allowed: 'a JSON object, inline or @file',
    defaultText: 'policy isl_bounding, 2048, 0.7',
    about: 'Settings of conditional disaggregation.',
  }),
  disaggregationMode: workers.choice({
    names: '--disaggregation-mode DYN_VLLM_DISAGGREGATION_MODE',
    values: ['agg', 'pd', 'prefill', 'decode', 'encode'],
    synonyms: { null: 'agg' }, // SGLang's
    note: 'mocker: agg, prefill, decode; pd = agg beside encode workers',
    default: 'agg',
    about: 'Role of a worker.',
  }),
  isPrefillWorker: workers.bool({
    names: '--is-prefill-worker DYN_VLLM_IS_PREFILL_WORKER',
    source: 'older Dynamo',
    deprecated: 'use --disaggregation-mode prefill',
    about: 'Makes the worker a prefill worker.',
  }),
  isDecodeWorker: workers.bool({
    names: '--is-decode-worker DYN_VLLM_IS_DECODE_WORKER',
    source: 'older Dynamo',
    deprecated: 'use --disaggregation-mode decode',
    about: 'Makes the worker a decode worker.',
  }),
  bootstrapPorts: workers.ports({
    names: '--bootstrap-ports',
    note: 'one per worker',
    source: '1.6.1 (mocker)',
    about: 'Rendezvous ports of mock prefill workers.',
  }),
  prefillDrainTimeoutSecs: worker.decimal({
    names: 'DYN_PREFILL_DRAIN_TIMEOUT_S',
    range: { min: 0, unit: 's' },
    about: 'Longest drain of a prefill worker.',
  }),
  kvTransferDomain: worker.text({
    names: 'DYN_KV_TRANSFER_DOMAIN',
    note: 'needed with DYN_TOPOLOGY_ENABLED',
    about: 'Topology domain within which KV is transferred.',
  }),
  kvTransferEnforcement: worker.choice({
    names: 'DYN_KV_TRANSFER_ENFORCEMENT',
    values: ['required', 'preferred'],
    default: 'required',
    about: 'Whether the transfer domain is required or preferred.',
  }),
  kvTransferPreferredWeight: worker.decimal({
    names: 'DYN_KV_TRANSFER_PREFERRED_WEIGHT',
    range: { min: 0, max: 1 },
    note: 'with preferred only',
    about: 'Weight of a preferred transfer domain.',
  }),
  topologyEnabled: worker.bool({
    names: 'DYN_TOPOLOGY_ENABLED',
    about: "Reads the worker's place in the topology, for KV transfer, and publishes it on its card.",
  }),
  topologyMountPath: worker.folder({
    names: 'DYN_TOPOLOGY_MOUNT_PATH',
    default: '/etc/dynamo/topology',
    about: 'Folder with one file per topology domain: the file name is the domain, the content is the value.',
  }),
};
