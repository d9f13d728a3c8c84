import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { trtllm } from '../../../../shared/engines/trtllm/launch.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

describe('the folder of the options of TensorRT-LLM', () => {
  let temporary: string;

  beforeEach(async () => {
    temporary = await mkdtemp(join(tmpdir(), 'stator-test-'));
    vi.stubEnv('TMPDIR', temporary);
  });

  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(temporary, { recursive: true });
  });

  it('goes with a start that fails', async () => {
    const config = await resolveConfig('worker', ['--engine=trtllm', '--model=nobody/has-this'], {
      HF_HUB_OFFLINE: '1',
    });
    const context = { clock: new VirtualClock(), logger: captureLogger().logger, onDroppedKvEvents: () => {}, at: 0 };
    await expect(trtllm.open(config, context)).rejects.toThrow(/files are not on this machine/);
    expect(await readdir(temporary)).toEqual([]);
  });
});
