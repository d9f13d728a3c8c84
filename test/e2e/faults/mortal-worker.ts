/** `stator worker --engine mocker` whose engine dies as a process of its own would, at SIGUSR2. */

import { stopSignal } from '../../../functions/process.ts';
import { SYSTEM } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { mockEngineFor } from '../../../shared/engines/mocker/kind.ts';
import { openLogger } from '../../../shared/telemetry/index.ts';
import { startWorkerProcess } from '../../../shared/worker/process/worker.ts';

const config = resolveConfig('worker', process.argv.slice(2), process.env, { allowMissing: true });
const { settings } = config;
const { disaggregationMode: role } = settings;
const folder = settings.modelPath ?? '';
const logger = openLogger(settings);
const stopped = stopSignal();
const running = await startWorkerProcess(config, SYSTEM, logger, new AbortController().signal, {
  names: { displayName: settings.modelName ?? '' },
  card: { workerType: role === 'prefill' || role === 'decode' ? role : 'aggregated' },
  open: async () => {
    const { engine, info } = await mockEngineFor(folder, settings, SYSTEM);
    const onExit = (told: (reason: Error) => void): void => {
      process.once('SIGUSR2', () => told(new Error('engine killed')));
    };
    return {
      engine: Object.assign(engine, { onExit }),
      model: { files: info.files, contextLength: info.contextLength, sourcePath: folder },
    };
  },
});
const reason = await Promise.race([stopped, running.engineExit]);
await running.drain();
process.exit(typeof reason === 'string' ? 0 : 1);
