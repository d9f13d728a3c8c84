/*
 * Limits how much a turn of the event loop does for streams. Node accepts one connection per turn, so a new connection
 * waits as many turns as there are connections before it; and Node reads from a socket as long as there is more.
 * Without a limit, 100 streams with log probabilities made turns of half a second, and a new connection waited for
 * twenty of them.
 */

/** Bytes written in one turn, or work that counts as much: about 30 ms of work. */
const TURN_BYTES_MAX = 4 * 1024 * 1024;
/** Smaller amounts are not worth a look at the end of the turn; they count together with those of the next turns. */
const COUNTED_BYTES_MIN = 256 * 1024;
/**
 * Turns in a row that only accept connections, before streams get one. Even a flood of connections leaves most of the
 * time to streams.
 */
const ARRIVAL_TURNS_MAX = 64;

let spentBytes = 0;
let isArmed = false;
let hasArrival = false;
let arrivalTurns = 0;
const waiting: (() => void)[] = [];

/** Counts bytes that a stream has written in this turn, or work that costs as much as writing them. */
export function spendOfTurn(bytes: number): void {
  spentBytes += bytes;
  if (spentBytes > COUNTED_BYTES_MIN && !isArmed) arm();
}

/** Whether this turn has room for more work of streams. False too while such work waits, because it goes first. */
export function hasTurnRoom(): boolean {
  return waiting.length === 0 && spentBytes < TURN_BYTES_MAX;
}

/**
 * Runs `work` in a later turn that has room, in the order of the calls. `work` does a small part, counts it with
 * `spendOfTurn`, and asks again for the next part.
 */
export function whenTurnHasRoom(work: () => void): void {
  waiting.push(work);
  if (!isArmed) arm();
}

/** Notes that a connection was accepted: others may wait behind it, so streams pause for the turns that accept them. */
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
