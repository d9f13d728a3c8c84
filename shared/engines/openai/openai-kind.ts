import type { EngineKind } from '../engine-kind.ts';
import { withMediaGuard } from '../media/index.ts';
import { createOpenAiEngine } from './openai-engine.ts';

/** `--engine openai`: a running server, by its URL. */
export const openai: EngineKind = {
  displayName: ({ servedModelName, modelName }) => servedModelName ?? modelName,

  async open({ settings }, { clock }) {
    const { engineUrl, engineApiKey, model } = settings;
    if (engineUrl === undefined) throw new Error('--engine openai needs --engine-url');
    const engine = createOpenAiEngine({ url: engineUrl, apiKey: engineApiKey, modelName: model }, { clock });
    return { engine: withMediaGuard(engine, settings, clock), model: {} };
  },
};
