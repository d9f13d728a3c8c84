import { workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/request/index.ts';
import { isRecord } from '../../records/index.ts';
import type { RecoveryRequest, RecoveryResponse } from '../../router/feed/index.ts';
import type { RankJournal } from './rank-journal.ts';

/** Answers with every block of a rank that are under way at once; more are refused for now. */
const DUMPS_MAX = 8;

/** Answers routers that ask what they have missed; one for all ranks of a worker. */
export class RecoveryService {
  #dumps = 0;

  /** Serves one query on `journal`. */
  serve(journal: RankJournal, call: IncomingCall): void {
    const request = readRequest(call.body);
    if (request === undefined) {
      call.fail(workerError('InvalidArgument', 'a recovery query has whole event ids'));
      return;
    }
    const isDump = journal.needsDump(request);
    if (isDump && this.#dumps >= DUMPS_MAX) {
      call.fail(workerError('WorkerOverloaded', `${DUMPS_MAX} dumps are under way`)); // routers try again
      return;
    }
    if (isDump) this.#dumps++;
    call.accept();
    this.#send(call, journal.answer(request), () => {
      if (isDump) this.#dumps--;
    });
  }

  /** Sends parts as fast as the router takes them, a slice of a dump a turn: the engine's tokens go out between them. */
  #send(call: IncomingCall, parts: Generator<RecoveryResponse | undefined, void, void>, onOver: () => void): void {
    while (!call.stopped.aborted) {
      if (call.isBlocked()) {
        call.onUnblocked(() => this.#send(call, parts, onOver));
        return;
      }
      const part = parts.next();
      if (part.done === true) break;
      if (part.value === undefined) {
        setImmediate(() => this.#send(call, parts, onOver));
        return;
      }
      call.output({ body: part.value });
    }
    parts.return();
    call.end(); // nothing where the stream is gone already
    onOver();
  }
}

function readRequest(body: unknown): RecoveryRequest | undefined {
  if (!isRecord(body)) return undefined;
  const { start_event_id, end_event_id, compact, ...rest } = body;
  const start = start_event_id ?? undefined;
  const end = end_event_id ?? undefined;
  if (!isEventId(start) || !isEventId(end)) return undefined;
  return {
    ...(rest as Pick<RecoveryRequest, 'worker_id' | 'dp_rank'>), // the endpoint says both already
    ...(start === undefined ? {} : { start_event_id: start }),
    ...(end === undefined ? {} : { end_event_id: end }),
    compact: compact === true,
  };
}

function isEventId(value: unknown): value is number | undefined {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}
