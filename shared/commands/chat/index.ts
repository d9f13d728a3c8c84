import { reasonOf } from '../../errors/index.ts';
import type { Frontend } from '../../frontends/process/index.ts';
import type { RoutableModel } from '../../pipeline/index.ts';
import { chatInTerminal } from './terminal.ts';
import { chatThrough } from './turns.ts';

/**
 * `--interactive`: a chat in this terminal with the first model that takes chats, once there is one. Resolves when the user
 * leaves or `stopped` resolves.
 * @param path the frontend's route of chat completions
 * @param chatting aborted once Ctrl-C is the chat's: it cancels an answer then
 */
export async function chatWith(
  frontend: Frontend,
  path: string,
  stopped: Promise<unknown>,
  chatting: AbortController,
): Promise<void> {
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reasonOf(reason))));
  const model = await firstChatModel(frontend, ending.signal);
  if (model === undefined) return;
  chatting.abort();
  await chatInTerminal(chatThrough(frontend, path, model.name), introduce(model), {
    input: process.stdin,
    output: process.stdout,
    signal: ending.signal,
    isPlain: Boolean(process.env.NO_COLOR),
    onInterrupt(listener) {
      process.on('SIGINT', listener);
      return () => void process.off('SIGINT', listener);
    },
  });
}

/** A model as the chat introduces it. A mock says so: it answers anything, and knows nothing. */
export function introduce({ name, card }: Pick<RoutableModel, 'name' | 'card'>): string {
  const isMock = card.runtime_config.runtime_data?.engine === 'mocker';
  return isMock ? `${name}, a mock that recites a text whatever it is asked. A real engine: --engine` : name;
}

/** Undefined when the chat ends before there is a model. */
async function firstChatModel({ models }: Frontend, signal: AbortSignal): Promise<RoutableModel | undefined> {
  const find = () => models.list().find(({ card, workers }) => card.model_type.includes('Chat') && workers.length > 0);
  if (find() === undefined) process.stderr.write('Waiting for a worker that serves a chat model; Ctrl-C leaves.\n');
  try {
    await models.until(() => find() !== undefined, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    return undefined;
  }
  return find();
}
