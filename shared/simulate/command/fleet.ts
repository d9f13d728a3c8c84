import { ConfigError, type ResolvedConfig, type Settings } from '../../config/index.ts';
import { engineModel, readTimingProfile } from '../../engines/mocker/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { applyEngineArgs, readEngineArgs } from '../../worker/process/index.ts';
import type { SimulationOptions } from '../simulate.ts';

type Config = ResolvedConfig<'simulate'>;
type SimulatedWorkers = Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine'>;
type SimulatedFleet = SimulatedWorkers & Pick<SimulationOptions, 'prefill'>;

/** KV bytes of a token where nobody says them: of Llama 3.1 8B, 32 layers x 2 x 8 heads x 128 numbers x 2 bytes. */
const KV_BYTES_PER_TOKEN = 131_072;

/**
 * The configuration, in which `--extra-engine-args` has had its say.
 * @throws ConfigError for a file that cannot be used
 */
export async function withExtraEngineArgs(config: Config): Promise<Config> {
  const path = config.settings.extraEngineArgs;
  if (path === undefined) return config;
  const flag = '--extra-engine-args';
  const { settings, warnings } = applyEngineArgs(config, await readEngineArgs(flag, path), `${flag} ${path}`);
  return { ...config, settings, warnings: [...config.warnings, ...warnings] };
}

/**
 * The workers of one run, in one pool or in two.
 * @param warn takes one line for each setting that gives way to another or has no effect
 * @throws ConfigError for pools that cannot work together, and for tables of times that cannot be read
 */
export async function simulatedFleet(config: Config, warn: (warning: string) => void): Promise<SimulatedFleet> {
  const { settings, given } = config;
  const { workers, numPrefillWorkers, numDecodeWorkers } = settings;
  if (numPrefillWorkers === undefined || numDecodeWorkers === undefined) {
    for (const setting of ['prefillEngineArgs', 'decodeEngineArgs'] as const) {
      const flag = given.get(setting)?.name;
      if (flag !== undefined) throw new ConfigError([`${flag} needs --num-prefill-workers and --num-decode-workers`]);
    }
    return workersOf(workers, settings);
  }
  const prefill = await poolSettings(config, 'prefill');
  const decode = await poolSettings(config, 'decode');
  for (const warning of [...prefill.warnings, ...decode.warnings]) warn(warning);
  if (prefill.settings.blockSize !== decode.settings.blockSize) {
    throw new ConfigError([
      `block_size ${prefill.settings.blockSize} of the prefill workers is not the ${decode.settings.blockSize} of the decode workers: blocks cross as they are`,
    ]);
  }
  const { kvBytesPerToken, kvTransferBandwidth, kvTransferTimingMode } = prefill.settings;
  return {
    ...(await workersOf(numDecodeWorkers, decode.settings)),
    prefill: {
      ...(await workersOf(numPrefillWorkers, prefill.settings)),
      transfer: {
        bytesPerToken: kvBytesPerToken ?? KV_BYTES_PER_TOKEN,
        bandwidthGbps: kvTransferBandwidth,
        movesMissingOnly: kvTransferTimingMode === 'destination_missing',
      },
    },
  };
}

async function poolSettings(config: Config, role: 'prefill' | 'decode') {
  const { settings } = config;
  const given = role === 'prefill' ? settings.prefillEngineArgs : settings.decodeEngineArgs;
  if (given === undefined) return { settings, warnings: [] };
  const flag = `--${role}-engine-args`;
  const args = given.kind === 'json' ? given.value : await readEngineArgs(flag, given.path);
  const { worker_type: type = role } = (args ?? {}) as { readonly worker_type?: unknown };
  if (type !== role) throw new ConfigError([`${flag}: worker_type must be ${role}, got ${JSON.stringify(type)}`]);
  return applyEngineArgs(config, args, flag);
}

async function workersOf(workers: number, settings: Settings<'simulate'>): Promise<SimulatedWorkers> {
  const { dataParallelSize, numGpuBlocks, plannerProfileData: path } = settings;
  try {
    const timing = path === undefined ? undefined : await readTimingProfile(path);
    return { workers, dataParallelSize, engine: { numGpuBlocks, ...engineModel(settings), timing } };
  } catch (thrown) {
    throw new ConfigError([reasonOf(thrown)]); // figures by other times than those asked for would mislead
  }
}
