import { describe, expect, it } from 'vitest';
import { streamHandler } from '../../../../shared/commands/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const CONTEXT = { getRemainingTimeInMillis: () => 10_000 };

const recordOf = (pk: string, sequenceNumber: string) => ({
  eventID: `e${sequenceNumber}`,
  eventName: 'MODIFY',
  eventSource: 'aws:dynamodb',
  dynamodb: { Keys: { pk: { S: pk }, sk: { S: 'ENV#1' } }, SequenceNumber: sequenceNumber },
});

function open(failed: readonly string[] = []) {
  const clock = new VirtualClock();
  const woken: string[][] = [];
  const bed = { opens: 0, fault: undefined as Error | undefined, hangs: false };
  const handler = streamHandler({
    clock,
    open: async () => {
      bed.opens++;
      if (bed.fault !== undefined) throw bed.fault;
      return {
        wake: async (groups, signal) => {
          woken.push([...groups]);
          if (bed.hangs)
            await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
          return failed;
        },
      };
    },
  });
  return { clock, handler, woken, bed };
}

describe('the handler of the stream of the planner table', () => {
  it('tells each model of the batch, and passes over items that are no notes', async () => {
    const { handler, woken } = open();
    const Records = [recordOf('HELD#ns#a', '1'), recordOf('PLAN#ns#a', '2'), recordOf('HELD#ns#b', '3')];
    expect(await handler({ Records }, CONTEXT)).toEqual({ batchItemFailures: [] });
    expect(woken).toEqual([['ns#a', 'ns#b']]);
  });

  it('names the records of the models that could not be told', async () => {
    const { handler } = open(['ns#b']);
    const Records = [recordOf('HELD#ns#a', '1'), recordOf('HELD#ns#b', '2'), recordOf('HELD#ns#b', '3')];
    expect(await handler({ Records }, CONTEXT)).toEqual({
      batchItemFailures: [{ itemIdentifier: '2' }, { itemIdentifier: '3' }],
    });
  });

  it('opens again after a failure, for which the whole batch comes again', async () => {
    const { handler, bed } = open();
    const event = { Records: [recordOf('HELD#ns#a', '1')] };
    bed.fault = new Error('no rights');
    await expect(handler(event, CONTEXT)).rejects.toThrow('no rights');
    bed.fault = undefined;
    await handler(event, CONTEXT);
    await handler(event, CONTEXT);
    expect(bed.opens).toBe(2);
  });

  it('gives up before Lambda ends the environment, and leaves no timer armed', async () => {
    const { clock, handler, bed } = open();
    bed.hangs = true;
    const ended = expect(handler({ Records: [recordOf('HELD#ns#a', '1')] }, CONTEXT)).rejects.toThrow('time');
    await clock.advance(9000);
    await ended;
    expect(clock.pendingTimers).toBe(0);
  });

  it('refuses an event that is not of a stream, by the field', async () => {
    const { handler } = open();
    await expect(handler({}, CONTEXT)).rejects.toThrow(/Records must be a list/);
    await expect(handler({ Records: [{ dynamodb: { Keys: {} } }] }, CONTEXT)).rejects.toThrow(/pk must be a record/);
  });
});
