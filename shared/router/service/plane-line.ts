import type { Clock, Random } from '../../clock/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import {
  askOnce,
  type OneAnswer,
  type PlaneRequest,
  type RequestPlane,
  type Transport,
} from '../../planes/request/index.ts';
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
    return (await this.#ask(this.#address.choose, { body: PROBE_BODY }, timeoutMs)).kind === 'answered';
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
    void this.#ask(this.#address.release, { body: encodeChange(change) }, timeoutMs); // never rejects
  }

  async explain(about: string | ChooseQuery, timeoutMs: number): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const answer = await this.#ask(this.#address.explain, question, timeoutMs);
    if (answer.kind === 'failed') return undefined;
    const { explanation } = (answer.output?.body ?? {}) as { readonly explanation?: ExplanationRecord | null };
    return explanation ?? undefined;
  }

  close(): void {}

  #ask(
    transport: Transport,
    question: Partial<PlaneRequest> & { readonly body: unknown },
    timeoutMs: number,
  ): Promise<OneAnswer> {
    const { plane, clock, random } = this.#options;
    return askOnce(plane, transport, { id: random.uuid(), headers: {}, ...question }, { clock, timeoutMs });
  }
}
