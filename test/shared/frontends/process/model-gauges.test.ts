import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { ModelCard } from '../../../../shared/discovery/index.ts';
import { factsOf, ModelGauges } from '../../../../shared/frontends/process/observers.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { model } from '../../pipeline/fixtures.ts';

function start(intervalMs: number | undefined) {
  const clock = new VirtualClock();
  const shown: Record<string, number | undefined> = {};
  let models: { readonly model: string; readonly contextLength: number }[] = [];
  const gauges = new ModelGauges({
    clock,
    intervalMs,
    list: () => models.map((facts) => ({ ...facts, kvCacheBlockSize: 16, migrationLimit: 3 })),
    show: ({ model, contextLength }) => {
      shown[model] = contextLength;
    },
  });
  const change = (...now: typeof models): void => {
    models = now;
    gauges.changed();
  };
  return { clock, shown, gauges, change };
}

describe('the gauges of models', () => {
  it('show a new model at once, and what changes of it at the next look', async () => {
    const { clock, shown, change } = start(8000);
    change({ model: 'a', contextLength: 1024 });
    expect(shown).toEqual({ a: 1024 });
    change({ model: 'a', contextLength: 2048 }, { model: 'b', contextLength: 512 });
    expect(shown).toEqual({ a: 1024, b: 512 });
    await clock.advance(7999);
    expect(shown.a).toBe(1024);
    await clock.advance(1);
    expect(shown.a).toBe(2048);
  });

  it('stay when their model has gone', async () => {
    const { clock, shown, change } = start(8000);
    change({ model: 'a', contextLength: 1024 });
    change();
    await clock.advance(16_000);
    expect(shown).toEqual({ a: 1024 });
  });

  it('follow every change where there is no interval', () => {
    const { shown, change } = start(undefined);
    change({ model: 'a', contextLength: 1024 });
    change({ model: 'a', contextLength: 2048 });
    expect(shown).toEqual({ a: 2048 });
  });

  it('show the block size by which requests are routed, whatever the card says', () => {
    const { settings } = resolveConfig('frontend', [], {});
    const known = model();
    const card = { ...known.card, kv_cache_block_size: 16, runtime_config: {} } as unknown as ModelCard;
    const sizeOf = (blockSizeTokens: number) =>
      factsOf({ ...known, card, pool: { ...known.pool, blockSizeTokens } }, settings).kvCacheBlockSize;
    expect([sizeOf(64), sizeOf(0)]).toEqual([64, undefined]);
  });

  it('are looked at no more once closed', async () => {
    const { clock, shown, gauges, change } = start(8000);
    change({ model: 'a', contextLength: 1024 });
    change({ model: 'a', contextLength: 2048 });
    gauges.close();
    await clock.advance(8000);
    expect(shown).toEqual({ a: 1024 });
  });
});
