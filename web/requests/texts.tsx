import type { ConsoleRequestDetail, ConsoleText } from '../../shared/console/wire/requests.ts';
import { whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';

/** Prompt and answers of a request, as far as the frontend keeps them. */
export function Texts({ detail: { text: shown, no_text: why } }: { readonly detail: ConsoleRequestDetail }) {
  if (shown === null) return <p class="muted">{why}</p>;
  return (
    <div class="texts">
      <Scroll label="Texts">
        {shown.prompts > 1 && <p class="muted small pad">The first of {whole(shown.prompts)} prompts.</p>}
        {shown.left_out > 0 && (
          <p class="muted small pad">Earlier messages that are not kept: {whole(shown.left_out)}.</p>
        )}
        {shown.prompt.map(({ role, text, is_cut }, at) => (
          <Said key={at} by={role} text={text} isCut={is_cut} />
        ))}
        {shown.answers.map((answer) => (
          <Answer key={answer.choice} answer={answer} hasOthers={shown.answers.length > 1} />
        ))}
        {shown.is_cut && <CutMark />}
      </Scroll>
    </div>
  );
}

interface AnswerProps {
  readonly answer: ConsoleText['answers'][number];
  readonly hasOthers: boolean;
}

function Answer({ answer: { choice, text, reasoning, calls }, hasOthers }: AnswerProps) {
  const name = hasOthers ? `answer ${choice + 1}` : 'answer';
  return (
    <>
      {reasoning !== '' && <Said by={`${name}, reasoning`} text={reasoning} />}
      {(text !== '' || calls.length === 0) && <Said by={name} text={text} />}
      {calls.map((call, at) => (
        <Said key={at} by={`${name}, calls ${call.name}`} text={call.arguments} />
      ))}
    </>
  );
}

function Said({ by, text, isCut = false }: { readonly by: string; readonly text: string; readonly isCut?: boolean }) {
  return (
    <figure>
      <figcaption class="muted small">{by}</figcaption>
      <pre>
        {text}
        {isCut && <CutMark />}
      </pre>
    </figure>
  );
}

/** Mark of a text whose end is not kept. */
function CutMark() {
  return <span class="muted small"> … cut here</span>;
}
