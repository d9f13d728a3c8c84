import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { ServeError } from '../../../shared/errors/index.ts';
import type { HttpSettings } from '../../../shared/frontends/http/settings.ts';
import { createPickerMetrics } from '../../../shared/frontends/picker/deps.ts';
import { Endpoints } from '../../../shared/frontends/picker/endpoints.ts';
import { SentRequests } from '../../../shared/frontends/picker/sent-requests.ts';
import { createPickerService } from '../../../shared/frontends/picker/service.ts';
import { openGrpcServer } from '../../../shared/grpc/index.ts';
import type { Placement, Placer, RoutableModel } from '../../../shared/pipeline/index.ts';
import { createFrontendMetrics } from '../../../shared/telemetry/index.ts';
import { createTestApp, type TestAppOptions } from '../http-app.ts';
import { PlayedEnvoy } from './played-envoy.ts';

type Worker = Placement['decode']['worker'];

/** A worker at an address. @param ranks number of its data-parallel ranks. @default 1 */
export function workerAt(id: string, address: string, ranks = 1): Worker {
  return {
    id,
    transport: { tcp: address },
    endpoint: 'dynamo.backend.generate',
    scope: { namespace: 'dynamo', component: 'backend' },
    publishesKvEvents: false,
    hasLocalIndexer: false,
    dataParallelStartRank: 0,
    dataParallelSize: ranks,
    deviceType: undefined,
    taints: [],
  };
}

/** Reserves the first worker that is admitted, and counts what becomes of the places. */
class CountingPlacer implements Placer {
  placed = 0;
  begun = 0;
  released = 0;
  /** Requests that wait for `open`. */
  waiting = 0;
  prefill: Placement['prefill'];
  /** Rank of every worker. */
  dpRank: number | undefined = 1;
  failure: ServeError | undefined;
  readonly #workers: readonly Worker[];
  #gate: Promise<void> | undefined;
  #openGate: (() => void) | undefined;

  constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  /** Lets requests wait until `open`. */
  shut(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve;
    });
  }

  open(): void {
    this.#openGate?.();
    this.#gate = undefined;
  }

  async place(...[, , { signal, admits }]: Parameters<Placer['place']>): Promise<Placement> {
    if (this.#gate !== undefined) {
      this.waiting++;
      await this.#gate;
      this.waiting--;
    }
    if (signal.aborted) throw signal.reason;
    if (this.failure !== undefined) throw this.failure;
    const [worker, ...others] = this.#workers.filter(admits);
    if (worker === undefined) throw new ServeError('service_unavailable', 'no worker');
    this.placed++;
    let hasBegun = false;
    let isReleased = false;
    return {
      decode: { worker, dpRank: this.dpRank },
      prefill: this.prefill,
      others,
      promptTokens: 7,
      begun: () => {
        if (!hasBegun) this.begun++;
        hasBegun = true;
      },
      release: () => {
        if (!isReleased) this.released++;
        isReleased = true;
      },
    };
  }
}

interface BedOptions extends TestAppOptions {
  readonly workers?: readonly Worker[];
  readonly fallbacks?: number;
  /** Ports of the endpoints. @default 8000 */
  readonly ports?: readonly number[];
  /** @default 30 minutes */
  readonly silenceMsMax?: number;
  readonly settings?: Partial<HttpSettings>;
}

/** A picker on a port, before scripted workers. */
export async function startPicker(options: BedOptions = {}) {
  const { workers = [workerAt('a1', '10.0.0.1:7/x'), workerAt('b2', '10.0.0.2:7/x')], fallbacks = 0 } = options;
  const { ports = [8000], silenceMsMax = 1_800_000, clock = systemClock } = options;
  const metrics = createFrontendMetrics({ clock: systemClock });
  const { app, deps, lifecycle, lines } = createTestApp({ metrics, ...options });
  const placer = new CountingPlacer(workers);
  const service = createPickerService(
    {
      app,
      pipeline: deps.pipeline,
      placer,
      models: { list: () => [{ workers } as unknown as RoutableModel] },
      settings: deps.settings,
      responseStore: deps.responseStore,
      bodies: deps.bodies,
      endpoints: new Endpoints(ports),
      fallbacks,
      sent: new SentRequests(),
      clock,
      silenceMsMax,
      random: systemRandom,
      logger: deps.logger,
      metrics: createPickerMetrics(metrics.registry),
    },
    () => lifecycle.stage === 'ready',
  );
  const server = await openGrpcServer({
    host: '127.0.0.1',
    port: 0,
    methods: service.methods,
    clock: systemClock,
    random: systemRandom,
    messageBytesMax: deps.settings.bodyLimitBytes + 65_536,
  });
  const address = `127.0.0.1:${server.port}`;
  const envoy = new PlayedEnvoy(address);
  return {
    address,
    placer,
    envoy,
    lines,
    lifecycle,
    bodies: deps.bodies,
    /** Lines of the metrics that begin with `name`. */
    metric: (name: string) =>
      metrics.registry
        .render()
        .split('\n')
        .filter((line) => line.startsWith(name)),
    close: async () => {
      envoy.close();
      await server.close(0);
    },
  };
}
