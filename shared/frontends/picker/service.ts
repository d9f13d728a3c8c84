import {
  file_external_processor,
  file_health,
  type GrpcMethod,
  HEALTH,
  HealthService,
  reflectionMethods,
} from '../../grpc/index.ts';
import type { PickerDeps } from './deps.ts';
import { PickStream } from './pick-stream.ts';

/** Name of Envoy's service. */
const EXT_PROC = 'envoy.service.ext_proc.v3.ExternalProcessor';

/** Names under which gateways and clusters ask whether requests can be picked for. */
const READINESS: ReadonlySet<string> = new Set([EXT_PROC, 'readiness', 'inference-extension']);
const LIVENESS: ReadonlySet<string> = new Set(['', 'liveness', HEALTH]);

/** Creates the services of an endpoint picker: external processing, health and reflection. */
export function createPickerService(deps: PickerDeps, isReady: () => boolean) {
  const health = new HealthService((service) => {
    if (LIVENESS.has(service)) return true;
    return READINESS.has(service) ? isReady() : undefined;
  });
  const methods: readonly GrpcMethod[] = [
    { path: `/${EXT_PROC}/Process`, serve: (call) => new PickStream(deps, call).next() },
    ...health.methods,
    ...reflectionMethods([file_external_processor, file_health]),
  ];
  return { methods, health };
}
