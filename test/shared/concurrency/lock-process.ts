import { systemClock } from '../../../shared/clock/index.ts';
import { FileLock } from '../../../shared/concurrency/index.ts';

/** A process that holds the lock at the path it is given: each line of its input has it say whether it still does. */
const path = process.argv[2] ?? '';
const failure = (what: string): Error => new Error(what);
await new FileLock({ path, clock: systemClock, failure }).hold(undefined, async (stillHeld) => {
  console.log('held');
  for await (const _ of process.stdin) {
    console.log(
      await stillHeld().then(
        () => 'still held',
        (error: Error) => error.message,
      ),
    );
  }
});
console.log('given back');
