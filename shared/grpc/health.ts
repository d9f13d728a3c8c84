import { framed } from './message-frames.ts';
import { decodeMessage, encodeMessage, HealthCheckRequestSchema, HealthCheckResponseSchema } from './messages/index.ts';
import { GrpcStatus, STATUS } from './status.ts';
import type { GrpcCall, GrpcMethod } from './types.ts';
import { receiveOne, unary } from './unary.ts';

/** The standard health service. */
export const HEALTH = 'grpc.health.v1.Health';

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

export interface HealthOptions {
  /** Whether a service answers now; undefined for one that nobody knows. The empty name stands for the process. */
  readonly isServing: (service: string) => boolean | undefined;
}

/** `grpc.health.v1.Health`, open to everybody: `Check` tells what is, `Watch` what becomes of it. */
export class HealthService {
  readonly methods: readonly GrpcMethod[];
  readonly #options: HealthOptions;
  readonly #watchers = new Set<() => void>(); // one for each call under way
  #isShuttingDown = false;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.methods = [
      unary(`/${HEALTH}/Check`, (message) => {
        const status = this.#statusOf(decodeMessage(HealthCheckRequestSchema, message).service);
        if (status === SERVICE_UNKNOWN) throw new GrpcStatus(STATUS.NOT_FOUND, 'unknown service');
        return encodeMessage(HealthCheckResponseSchema, { status });
      }),
      {
        path: `/${HEALTH}/Watch`,
        serve: (call) =>
          receiveOne(call, (message) => this.#watch(call, decodeMessage(HealthCheckRequestSchema, message).service)),
      },
    ];
  }

  /** Something may have changed: those who watch are told where it has. */
  changed(): void {
    for (const look of this.#watchers) look();
  }

  /** Says NOT_SERVING from here on, of everything, and ends the calls that watch. */
  shutDown(): void {
    this.#isShuttingDown = true;
    this.changed();
  }

  #watch(call: GrpcCall, service: string): void {
    let told: number | undefined;
    let isWaiting = false;
    const look = (): void => {
      if (call.isBlocked() && !this.#isShuttingDown) {
        if (!isWaiting) call.onUnblocked(lookAgain); // who reads slowly hears of the last change alone
        isWaiting = true;
        return;
      }
      const status = this.#statusOf(service);
      if (status !== told) call.write(framed(encodeMessage(HealthCheckResponseSchema, { status })));
      told = status;
      if (!this.#isShuttingDown) return;
      this.#watchers.delete(look);
      call.end();
    };
    const lookAgain = (): void => {
      isWaiting = false;
      look();
    };
    this.#watchers.add(look);
    call.closed.addEventListener('abort', () => this.#watchers.delete(look), { once: true });
    look(); // after the call was added: it may be the last word
  }

  #statusOf(service: string): number {
    const isServing = this.#options.isServing(service);
    if (isServing === undefined) return SERVICE_UNKNOWN;
    return isServing && !this.#isShuttingDown ? SERVING : NOT_SERVING;
  }
}
