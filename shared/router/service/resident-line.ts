import type { ServeError } from '../../errors/index.ts';
import type { ExplanationRecord } from '../explain/explanation-record.ts';
import type { ChooseMessage } from './messages.ts';
import type { ChooseQuery, ReservationChangeQuery } from './types.ts';

/** What carries questions to one resident router: the request plane (`PlaneLine`), or gRPC (router/grpc). */
export interface ResidentLine {
  /** Connects where that is to be done, and sees whether the router is there. Never rejects, and ends in time. */
  probe(timeoutMs: number): Promise<boolean>;
  /** Asks for a worker; what comes of it is told to `sink`, on a later turn. */
  choose(query: ChooseQuery, sink: ChooseSink): AskedCall;
  /** Sent, and given up after `timeoutMs`. Never throws. */
  change(change: ReservationChangeQuery, timeoutMs: number): void;
  /** As `ResidentChannel.explain`. */
  explain(about: string | ChooseQuery, timeoutMs: number): Promise<ExplanationRecord | undefined>;
  /** Nothing is asked any more. Questions under way may still be answered. */
  close(): void;
}

/** What a question is told: messages, then its end or why it failed. */
export interface ChooseSink {
  message(message: ChooseMessage): void;
  end(): void;
  /** With the class that the router or the way to it gives: `WorkerUnavailable` is a standby's. */
  fail(error: ServeError): void;
}

/** A question under way. */
export interface AskedCall {
  /** Leaves the router's queue. What the sink is told afterwards means nothing. Idempotent. */
  kill(): void;
}
