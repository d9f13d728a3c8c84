import {
  framedBytes,
  type InferTensor,
  type ModelInferResponse,
  NO_CONTENTS,
  NO_PARAMETERS,
} from '../../protocol/kserve/index.ts';

/** What is told of one choice at a time. */
export interface SaidText {
  readonly text: string;
  /** `stop`, `length`, `content_filter`; empty until it ends. */
  readonly finish: string;
}

/** How the responses to one request look. */
export interface TextResponseOptions {
  readonly id: string;
  /** The request's contents were raw, so that those of its responses are. */
  readonly isRaw: boolean;
}

/** A response with the text of each choice, and why it ended. */
export function textResponse(
  modelName: string,
  choices: readonly SaidText[],
  { id, isRaw }: TextResponseOptions,
): ModelInferResponse {
  const texts = framedBytes(choices.map(({ text }) => text));
  const finishes = framedBytes(choices.map(({ finish }) => finish));
  const shape = [choices.length];
  const output = (name: string, bytes: typeof texts): InferTensor => ({
    name,
    datatype: 'BYTES',
    shape,
    parameters: NO_PARAMETERS,
    contents: isRaw ? undefined : { ...NO_CONTENTS, bytes },
  });
  return {
    modelName,
    modelVersion: '1',
    id,
    parameters: NO_PARAMETERS,
    outputs: [output('text_output', texts), output('finish_reason', finishes)],
    rawOutputContents: isRaw ? [texts.framed, finishes.framed] : [],
  };
}

/** Finish reasons of completions; others end as a stop does. */
export function finishText(reason: unknown): string {
  if (reason === null || reason === undefined) return '';
  return reason === 'length' || reason === 'content_filter' ? reason : 'stop';
}
