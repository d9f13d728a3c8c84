import { openChatTemplate, openModelFolder } from '../../artifacts/index.ts';
import { tellWhile } from '../../concurrency/index.ts';
import type { EdgeSettings, Settings } from '../../config/index.ts';
import type { ModelCard } from '../../discovery/index.ts';
import { findReasoningFormat } from '../../parsers/reasoning/index.ts';
import { hasParserOfVersion } from '../../parsers/tool-calls/index.ts';
import type { ModelStore, OpenModel, RoutableModel } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { loadModelFolder, ModelFolderError } from '../../tokens/index.ts';

/** Opens the models that cards name. `log` is told where something else than what was asked for has to do. */
export function modelOpener(settings: EdgeSettings, log: Logger): OpenModel {
  const open: OpenModel = async (card) => {
    const reference = { modelName: card.display_name, files: card.files, modelPath: settings.modelPath };
    const [folder, chatTemplate] = await Promise.all([openModelFolder(reference), openChatTemplate(reference)]);
    const loaded = await loadModelFolder(folder, {
      modelName: card.display_name,
      chatTemplate,
      ...tokenizerOf(card, settings, log),
    });
    warnOfReasoningFallback(card, log);
    return loaded;
  };
  return (card) => {
    const tell = (waited_s: number): void => log.info('loading the tokenizer', { model: card.display_name, waited_s });
    return tellWhile(open(card), tell);
  };
}

/** Tells whether a model answers chats: it is offered for them, and has a template to write them with where one is needed. */
export function chatCheck(store: Pick<ModelStore, 'get'>): (model: RoutableModel) => Promise<boolean> {
  return async (model) => {
    if (!model.card.model_type.includes('Chat')) return false;
    return model.card.model_input !== 'Tokens' || (await store.get(model)).chatTemplate !== undefined;
  };
}

/** What the card says of the tokenizer wins. `fastokens` is our own encoder, the fastest there is here. */
function tokenizerOf({ display_name: model, runtime_config: runtime }: ModelCard, settings: EdgeSettings, log: Logger) {
  if ((runtime.tokenizer_backend ?? settings.tokenizer) !== 'fastokens') return {};
  log.warn('fastokens is not part of this product: the built-in encoder takes its place', { model });
  return {
    onUncovered(path: string): void {
      if (!settings.tokenizerFallback) {
        throw new ModelFolderError(
          `${path}: not covered by the fast encoder; allow the reference tokenizer with --tokenizer-fallback, or choose it with --tokenizer default`,
        );
      }
      log.warn('the fast encoder does not cover this tokenizer: using the reference one', { model, path });
    },
  };
}

/** Workers of other versions may publish names that are unknown here. */
function warnOfReasoningFallback({ display_name: model, runtime_config: runtime }: ModelCard, log: Logger): void {
  if (!runtime.reasoning_parser) return;
  const found = findReasoningFormat(runtime.reasoning_parser);
  if (found.kind === 'fallback') log.warn(found.warning, { model });
}

/** Whether models with that card are served (`DYN_PARSER_VERSION`); one that is not is told once a name. */
export function cardFilter(version: Settings<'frontend'>['parserVersion'], log: Logger): (card: ModelCard) => boolean {
  const refused = new Set<string>();
  return ({ display_name: model, runtime_config: { tool_call_parser: parser } }) => {
    if (parser === undefined || hasParserOfVersion(parser, version)) return true;
    if (!refused.has(model)) {
      refused.add(model);
      log.warn('model is not served: its tool-call parser has no such version', { model, parser, version });
    }
    return false;
  };
}
