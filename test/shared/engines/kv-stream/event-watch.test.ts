import { beforeEach, describe, expect, it } from 'vitest';
import { EventWatch } from '../../../../shared/engines/kv-stream/event-watch.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

describe('watching for KV events that were asked for', () => {
  let clock: VirtualClock;
  let watch: EventWatch;
  let faults: (string | undefined)[];
  let warnings: () => number;

  beforeEach(() => {
    clock = new VirtualClock();
    const { logger, lines } = captureLogger();
    warnings = () => lines.filter(({ level }) => level === 'warn').length;
    watch = new EventWatch({ clock, logger, waitMs: 1000 });
    faults = [];
    watch.listen((fault) => faults.push(fault));
  });

  it('tells once that the first prompt of some blocks brought none, and that they come after all', async () => {
    watch.answered(8);
    await clock.advance(999);
    expect(faults).toEqual([]);
    await clock.advance(1);
    watch.answered(8);
    await clock.advance(5000);
    expect(faults).toEqual(['no usable event arrived within 1000 ms of the answer to a prompt of 8 blocks']);
    expect(warnings()).toBe(1);
    watch.came();
    watch.answered(8);
    await clock.advance(5000);
    expect(faults.slice(1)).toEqual([undefined]);
    expect(warnings()).toBe(1);
  });

  it('says nothing of prompts that fill no block for certain, nor where they come in time', async () => {
    watch.answered(2);
    await clock.advance(5000);
    watch.answered(3);
    watch.came();
    await clock.advance(5000);
    expect(faults).toEqual([]);
    expect(warnings()).toBe(0);
  });

  it('tells at once what cannot be followed, also to who listens later', () => {
    watch.cannotFollow('its prefix cache is off');
    const late: (string | undefined)[] = [];
    watch.listen((fault) => late.push(fault));
    expect([faults, late]).toEqual([['its prefix cache is off'], ['its prefix cache is off']]);
    expect(warnings()).toBe(1);
  });
});
