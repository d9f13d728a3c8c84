import type { Settings } from '../config/index.ts';
import type { EngineKind } from './types.ts';

/** Every engine by its name in `--engine`. Only the code of the worker's own engine is loaded. */
const KINDS: Readonly<Record<Settings<'worker'>['engine'], () => Promise<EngineKind>>> = {
  mocker: async () => (await import('./mocker/kind.ts')).mocker,
  openai: async () => (await import('./openai/openai-engine.ts')).openai,
  sglang: async () => (await import('./sglang/launch.ts')).sglang,
  trtllm: async () => (await import('./trtllm/launch.ts')).trtllm,
  vllm: async () => (await import('./vllm/launch.ts')).vllm,
};

/** Returns the kind of the engine that the settings name. */
export function engineKind({ engine }: Pick<Settings<'worker'>, 'engine'>): Promise<EngineKind> {
  return KINDS[engine]();
}
