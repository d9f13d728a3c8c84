import { listeners } from '../row.ts';

/** Rows of "Endpoint picker". */
export const endpointPickerRows = {
  endpointPickerPort: listeners.port({
    names: '--endpoint-picker-port STATOR_ENDPOINT_PICKER_PORT',
    note: '0 = any free',
    defaultText: 'unset = not served; gateways usually expect 9002',
    about: "Port on which gateways ask for the endpoint of each request, by Envoy's external processing.",
  }),
  endpointPickerTargetPort: listeners.ports({
    names: '--endpoint-picker-target-port STATOR_ENDPOINT_PICKER_TARGET_PORT',
    range: { min: 1 },
    default: [8000],
    about:
      "Port at which each worker's pod serves HTTP: the target port of the InferencePool. Several = one for each rank of a worker.",
  }),
  endpointPickerFallbacks: listeners.int({
    names: '--endpoint-picker-fallbacks STATOR_ENDPOINT_PICKER_FALLBACKS',
    range: { min: 0, max: 8 },
    default: 0,
    about: 'Further endpoints that a gateway may try after the first one, if it understands lists.',
  }),
  endpointPickerSilenceSecs: listeners.int({
    names: '--endpoint-picker-silence-secs STATOR_ENDPOINT_PICKER_SILENCE_SECS',
    range: { min: 1, max: 86_400, unit: 's' },
    default: 1800,
    about:
      'How long a gateway may tell nothing about a request before its place at the worker is freed: longer than the slowest answer that is not streamed.',
  }),
  endpointPickerSecureServing: listeners.bool({
    names: '--endpoint-picker-secure-serving STATOR_ENDPOINT_PICKER_SECURE_SERVING',
    default: true,
    about: 'Serves gateways over TLS: with --tls-cert-path, or with a certificate that the process signs itself.',
  }),
};
