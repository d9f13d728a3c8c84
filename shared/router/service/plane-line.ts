import type { Clock, Random } from '../../clock/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { CallSink, RequestPlane, Transport } from '../../planes/request/index.ts';
import type { ExplanationRecord } from '../explain/explanation-record.ts';
import { type ChooseMessage, decodeMessage, encodeChange, encodeQuery, PROBE_BODY } from './messages.ts';
import type { AskedCall, ChooseSink, ResidentLine } from './resident-line.ts';
import type { ChooseQuery, ReservationChangeQuery } from './types.ts';

/** Where a resident router is reached on the request plane. */
export interface PlaneAddress {
  readonly instanceId: string;
  readonly choose: Transport;
  readonly release: Transport;
  readonly explain: Transport;
}

export interface PlaneLineOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
}

/** Asks a resident router on the request plane. The plane keeps the connection. */
export class PlaneLine implements ResidentLine {
  readonly #address: PlaneAddress;
  readonly #options: PlaneLineOptions;

  constructor(address: PlaneAddress, options: PlaneLineOptions) {
    this.#address = address;
    this.#options = options;
  }

  async probe(timeoutMs: number): Promise<boolean> {
    return (await this.#call(this.#address.choose, { body: PROBE_BODY }, timeoutMs)) !== undefined;
  }

  choose(query: ChooseQuery, sink: ChooseSink): AskedCall {
    const request = { id: query.requestId, headers: {}, ...encodeQuery(query) };
    const call = this.#options.plane.call(this.#address.choose, request, {
      accepted() {},
      tokens: () => sink.fail(workerError('BackendProtocol', 'a router that sends tokens')),
      output: ({ body }) => {
        let message: ChooseMessage;
        try {
          message = decodeMessage(body);
        } catch (thrown) {
          call.kill();
          sink.fail(toServeError(thrown));
          return;
        }
        sink.message(message);
      },
      end: () => sink.end(),
      fail: (error) => sink.fail(error),
    });
    return call;
  }

  change(change: ReservationChangeQuery, timeoutMs: number): void {
    void this.#call(this.#address.release, { body: encodeChange(change) }, timeoutMs); // never rejects
  }

  async explain(about: string | ChooseQuery, timeoutMs: number): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const [answer] = (await this.#call(this.#address.explain, question, timeoutMs)) ?? [];
    const { explanation } = (answer ?? {}) as { readonly explanation?: ExplanationRecord | null };
    return explanation ?? undefined;
  }

  close(): void {}

  /** One short question; resolves with the records of its answer, undefined when it was not answered in time. */
  #call(
    transport: Transport,
    question: { readonly id?: string; readonly body: unknown; readonly tokenIds?: Uint32Array },
    timeoutMs: number,
  ): Promise<readonly unknown[] | undefined> {
    const { plane, clock, random } = this.#options;
    return new Promise((resolve) => {
      const outputs: unknown[] = [];
      const sink: CallSink = {
        accepted() {},
        tokens() {},
        output: ({ body }) => void outputs.push(body),
        end: () => settle(outputs),
        fail: () => settle(undefined),
      };
      const call = plane.call(transport, { id: random.uuid(), headers: {}, ...question }, sink);
      const timer = clock.after(timeoutMs, () => {
        call.kill();
        settle(undefined);
      });
      function settle(answer: readonly unknown[] | undefined): void {
        timer.cancel();
        resolve(answer);
      }
    });
  }
}
