import { costOfTokens } from '../../shared/console/token-cost.ts';
import type { ConsoleTokenPrice } from '../../shared/console/wire/fleet.ts';
import { duration, short, smallDollars, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import type { Answer } from './chat.ts';
import type { Turn } from './use-chat.ts';

const MS_PER_SECOND = 1000;

interface TurnViewProps {
  readonly turn: Turn;
  /** Price of the tokens of its model; null = unknown. */
  readonly price: ConsoleTokenPrice | null;
  readonly isLast: boolean;
  readonly isAnswering: boolean;
}

/** A question with its answer: reasoning, text and calls of tools apart. */
export function TurnView({ turn: { question, answer, failure }, price, isLast, isAnswering }: TurnViewProps) {
  const isComing = isLast && isAnswering;
  return (
    <article class="turn">
      <p class="question">{question}</p>
      {answer.reasoning !== '' && (
        <details open={isComing && answer.text === ''}>
          <summary>Reasoning</summary>
          <p class="reasoning">{answer.reasoning}</p>
        </details>
      )}
      <p class="answer" aria-live={isLast ? 'polite' : undefined} aria-busy={isComing}>
        {answer.text}
        {isComing && <span class="cursor" aria-hidden="true" />}
      </p>
      {answer.calls.map(({ name, arguments: given }, at) => (
        <figure key={at} class="call">
          <figcaption>
            Calls <b>{name}</b>
          </figcaption>
          <pre>{pretty(given)}</pre>
        </figure>
      ))}
      {failure !== undefined && <p role="alert">{failure}</p>}
      <AnswerFigures answer={answer} price={price} />
    </article>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch {
    return json; // it has not come to its end, or the model wrote something else
  }
}

interface AnswerFiguresProps {
  readonly answer: Answer;
  readonly price: ConsoleTokenPrice | null;
}

function AnswerFigures({ answer: { usage, ttftMs, totalMs, finish, id }, price }: AnswerFiguresProps) {
  if (ttftMs === undefined) return null;
  const output = usage?.completion_tokens;
  const rate = output === undefined || output < 2 ? undefined : ((output - 1) * MS_PER_SECOND) / (totalMs - ttftMs);
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  const cost =
    usage && price
      ? costOfTokens(price, { prompt: usage.prompt_tokens, cached: cached ?? 0, output: usage.completion_tokens })
      : undefined;
  const facts = [
    `first token after ${duration(ttftMs)}`,
    ...(usage === undefined ? [] : [`${whole(usage.prompt_tokens)} prompt tokens`]),
    ...(cached === undefined ? [] : [`${whole(cached)} cached`]),
    ...(output === undefined ? [] : [`${whole(output)} output tokens`]),
    ...(rate === undefined || !Number.isFinite(rate) ? [] : [`${short(rate)} tokens/s`]),
    `${duration(totalMs)} in all`,
    ...(cost === undefined ? [] : [`costs ${smallDollars(cost)}`]),
    ...(finish === undefined ? [] : [`ended with ${finish}`]),
  ];
  return (
    <p class="muted small">
      {facts.join(', ')}
      {id !== undefined && finish !== undefined && (
        <>
          {'. '}
          <a href={linkTo(['requests', id])}>Stages and routing decision</a>
        </>
      )}
    </p>
  );
}
