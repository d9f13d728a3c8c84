import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findLocalModel } from '../artifacts/index.ts';
import type { RouterSettings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { KvRouterConfigError, type PrefillDurationModel } from '../router/index.ts';
import { createPrefillEstimate, readModelShape } from '../router/prefill-estimate/index.ts';

/**
 * What predicts prefills with `--router-prefill-load-model aic`.
 * @throws KvRouterConfigError for a model folder that cannot be read, and as `createPrefillEstimate`
 */
export async function openPrefillModel(settings: RouterSettings): Promise<PrefillDurationModel> {
  return createPrefillEstimate({
    backend: settings.aicBackend ?? '',
    system: settings.aicSystem ?? '',
    shape: readModelShape(await readModelConfig(settings.aicModelPath ?? '')),
    tpSize: settings.aicTpSize ?? 1,
    attentionDpSize: settings.aicAttentionDpSize,
    moeTpSize: settings.aicMoeTpSize,
    moeEpSize: settings.aicMoeEpSize,
  });
}

async function readModelConfig(model: string): Promise<unknown> {
  const folder = await findLocalModel(model);
  const refuse = (reason: string): KvRouterConfigError =>
    new KvRouterConfigError('aic_model_path', `--aic-model-path ${JSON.stringify(model)}: ${reason}`);
  if (folder === undefined) throw refuse('no such folder, and no such model in the Hugging Face cache of this machine');
  try {
    return JSON.parse(await readFile(join(folder, 'config.json'), 'utf8'));
  } catch (thrown) {
    throw refuse(`its config.json cannot be read: ${reasonOf(thrown)}`);
  }
}
