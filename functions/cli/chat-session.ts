import { reasonOf } from '../../shared/errors/index.ts';
import type { Frontend } from '../compose/frontend/frontend.ts';
import { chatInTerminal } from './chat.ts';
import { chatThrough } from './chat-turns.ts';

/**
 * `--interactive`: a chat in this terminal with the first model that takes chats, once there is one. Resolves when the user
 * leaves or `stopped` resolves.
 * @param path the frontend's route of chat completions
 */
export async function chatWith(frontend: Frontend, path: string, stopped: Promise<unknown>): Promise<void> {
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reasonOf(reason))));
  const model = await firstChatModel(frontend, ending.signal);
  if (model === undefined) return;
  await chatInTerminal(chatThrough(frontend, path, model), model, {
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

/** Undefined when the chat ends before there is a model. */
async function firstChatModel({ models }: Frontend, signal: AbortSignal): Promise<string | undefined> {
  const find = () => models.list().find(({ card, workers }) => card.model_type.includes('Chat') && workers.length > 0);
  const giveUp = new AbortController();
  const onInterrupt = (): void => giveUp.abort();
  process.once('SIGINT', onInterrupt); // before the line that offers it
  if (find() === undefined) process.stderr.write('Waiting for a worker that serves a chat model; Ctrl-C leaves.\n');
  try {
    await models.until(() => find() !== undefined, AbortSignal.any([signal, giveUp.signal]));
  } catch (error) {
    if (!signal.aborted && !giveUp.signal.aborted) throw error;
    return undefined;
  } finally {
    process.off('SIGINT', onInterrupt);
  }
  return find()?.name;
}
