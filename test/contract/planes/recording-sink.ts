import type { ServeError } from '../../../shared/errors/index.ts';
import type { CallSink, IncomingCall } from '../../../shared/planes/index.ts';
import type { EngineOutput } from '../../../shared/protocol/index.ts';
import { waitUntil } from '../../support/index.ts';

/** A call that a sink received. Consecutive tokens of one choice are merged: transports may cut and join them. */
export type SinkEvent =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'tokens'; readonly choice: number; readonly ids: number[] }
  | { readonly kind: 'output'; readonly output: EngineOutput }
  | { readonly kind: 'end' }
  | { readonly kind: 'fail'; readonly error: ServeError };

/** A caller's sink that keeps everything. */
export class RecordingSink implements CallSink {
  readonly events: SinkEvent[] = [];
  tokenCount = 0;
  /** Times that it was asked to have another worker go on. */
  movesAsked = 0;

  accepted(): void {
    this.events.push({ kind: 'accepted' });
  }

  moveAsked(): void {
    this.movesAsked++;
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.tokenCount += count;
    let last = this.events.at(-1);
    if (last?.kind !== 'tokens' || last.choice !== choice) {
      last = { kind: 'tokens', choice, ids: [] };
      this.events.push(last);
    }
    for (let at = start; at < start + count; at++) last.ids.push(ids[at] ?? Number.NaN);
  }

  output(output: EngineOutput): void {
    this.events.push({ kind: 'output', output });
  }

  end(): void {
    this.events.push({ kind: 'end' });
  }

  fail(error: ServeError): void {
    this.events.push({ kind: 'fail', error });
  }

  /** Ids of all tokens, whatever their choice. */
  get ids(): number[] {
    return this.events.flatMap((event) => (event.kind === 'tokens' ? event.ids : []));
  }

  get failure(): ServeError | undefined {
    const last = this.events.at(-1);
    return last?.kind === 'fail' ? last.error : undefined;
  }

  get isClosed(): boolean {
    const kind = this.events.at(-1)?.kind;
    return kind === 'end' || kind === 'fail';
  }

  /** Resolves with the event that closed the stream. */
  async closed(): Promise<SinkEvent> {
    await waitUntil(() => this.isClosed, { what: 'the end of the stream' });
    return this.events.at(-1)!; // closed, so there is one
  }

  /** Resolves with the failure; rejects when the stream ended well. */
  async failed(): Promise<ServeError> {
    const last = await this.closed();
    if (last.kind !== 'fail') throw new Error('the stream ended well');
    return last.error;
  }
}

/** A handler that leaves its calls to the test. */
export class HeldCalls {
  readonly calls: IncomingCall[] = [];
  readonly handler = (call: IncomingCall): void => void this.calls.push(call);

  /** The call at `index` once it has arrived. */
  async at(index: number): Promise<IncomingCall> {
    return waitUntil(() => this.calls[index], { what: `call ${index}` });
  }
}
