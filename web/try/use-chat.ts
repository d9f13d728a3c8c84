import { useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, type ChatBody, chat, type Message, NO_ANSWER } from './chat.ts';

/** A question and its answer. */
export interface Turn {
  readonly question: string;
  /** Model that was asked. */
  readonly model: string;
  readonly answer: Answer;
  readonly failure: string | undefined;
}

/** A conversation with a model. */
export interface Chat {
  readonly turns: readonly Turn[];
  readonly isAnswering: boolean;
  send(question: string): void;
  stop(): void;
  clear(): void;
}

/** Returns the messages of a conversation that the next request repeats. Failed turns are left out. */
export function messagesOf(turns: readonly Turn[], question: string): readonly Message[] {
  const earlier = turns
    .filter(({ failure, answer }) => failure === undefined && answer.text !== '')
    .flatMap(({ question: asked, answer }): Message[] => [
      { role: 'user', content: asked },
      { role: 'assistant', content: answer.text },
    ]);
  return [...earlier, { role: 'user', content: question }];
}

/** Server, key and model of a conversation. */
interface ChatOptions {
  readonly path: string;
  readonly key: string;
  readonly model: string;
  /** Returns the body for these messages; it may throw an error with a text. */
  bodyOf(messages: readonly Message[]): ChatBody;
}

/** Keeps a conversation. */
export function useChat({ path, key, model, bodyOf }: ChatOptions): Chat {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [ending, setEnding] = useState<AbortController>();
  const asked = useRef(0);
  const latest = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => latest.current?.abort(), []); // no worker computes an answer that the page has left
  const answer = async (question: string): Promise<void> => {
    const mine = ++asked.current;
    const controller = new AbortController();
    const show = (turn: Partial<Turn>): void => {
      if (asked.current === mine) setTurns((all) => [...all.slice(0, -1), { ...all.at(-1)!, ...turn }]);
    };
    setTurns([...turns, { question, model, answer: NO_ANSWER, failure: undefined }]);
    latest.current = controller;
    setEnding(controller);
    try {
      const body = bodyOf(messagesOf(turns, question));
      for await (const more of chat(path, body, key, controller.signal)) show({ answer: more });
    } catch (thrown) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      show({ failure: controller.signal.aborted ? 'You stopped the answer.' : reason });
    }
    if (asked.current === mine) setEnding(undefined);
  };
  return {
    turns,
    isAnswering: ending !== undefined,
    send: (question) => void answer(question),
    stop: () => ending?.abort(),
    clear: () => {
      asked.current++;
      ending?.abort();
      setEnding(undefined);
      setTurns([]);
    },
  };
}
