/** A process that has the same trouble four times, and ends as its argument says: `end`, `exit`, `throw`, `signal`. */
import { stopSignal } from '../../../functions/process.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { openLogger } from '../../../shared/telemetry/index.ts';

const [, , how] = process.argv;
const log = openLogger(resolveConfig('frontend', [], {}).settings).for('discovery');
const stopped = how === 'signal' ? stopSignal() : undefined;
for (let at = 0; at < 4; at++) log.warn('away', { reason: 'timeout' });
if (how === 'exit') process.exit(3);
if (how === 'throw') throw new Error('a fault in the code');
if (stopped !== undefined) {
  setInterval(() => {}, 60_000); // it drains for as long as it is let
  await stopped;
}
