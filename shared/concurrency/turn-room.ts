/*
 * How much a turn of the event loop does for streams. Node accepts one connection a turn, so that whoever connects waits as many
 * turns as others wait before it; and what is read is read as long as there is more. Unbounded, 100 streams with log
 * probabilities made turns of half a second, and a new connection waited for twenty of them.
 */

/** Written in one turn, and what counts as that: some 30 ms of work. */
const TURN_BYTES_MAX = 4 * 1024 * 1024;
/** Less is not worth a look at its turn's end: it is counted with what the turns after it write. */
const COUNTED_BYTES_MIN = 256 * 1024;
/** Turns in a row that only let connections in, before streams get another: even a flood of connections leaves them most of the time. */
const ARRIVAL_TURNS_MAX = 64;

let spentBytes = 0;
let isArmed = false;
let hasArrival = false;
let arrivalTurns = 0;
const waiting: (() => void)[] = [];

/** Takes note of bytes that a stream has written in this turn, or of work that costs as much as writing them. */
export function spendOfTurn(bytes: number): void {
  spentBytes += bytes;
  if (spentBytes > COUNTED_BYTES_MIN && !isArmed) arm();
}

/** Whether this turn has room for more work of streams; false too while such work waits, which goes first. */
export function hasTurnRoom(): boolean {
  return waiting.length === 0 && spentBytes < TURN_BYTES_MAX;
}

/**
 * Runs `work` in a later turn that has room, in the order of the calls. It does a small part, counts it with `spendOfTurn`, and
 * asks again for the next.
 */
export function whenTurnHasRoom(work: () => void): void {
  waiting.push(work);
  if (!isArmed) arm();
}

/** A connection was accepted: others may wait behind it, so that streams pause for the turns that it takes to let them in. */
export function connectionArrived(): void {
  hasArrival = true;
  if (!isArmed) arm();
}

function arm(): void {
  isArmed = true;
  setImmediate(beginTurn);
}

function beginTurn(): void {
  isArmed = false;
  const letsIn = hasArrival && arrivalTurns < ARRIVAL_TURNS_MAX;
  arrivalTurns = letsIn ? arrivalTurns + 1 : 0;
  hasArrival = false;
  spentBytes = letsIn ? TURN_BYTES_MAX : 0;
  while (spentBytes < TURN_BYTES_MAX && waiting.length > 0) waiting.shift()?.();
  if (!isArmed && (waiting.length > 0 || spentBytes > COUNTED_BYTES_MIN)) arm();
}
