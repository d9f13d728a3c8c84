import { codeRow } from './codes.ts';
import type { ServeError } from './serve-error.ts';

/** Error envelope of every OpenAI-family route. `code` is a string; the HTTP status alone carries the number. */
export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

export function openAiErrorBody(error: ServeError): OpenAiErrorBody {
  return {
    error: {
      message: error.message,
      type: codeRow(error.code).openAiType,
      param: error.param ?? null,
      code: error.code,
    },
  };
}

/** The SSE frames that end a chat or completions stream after a failure. */
export function openAiStreamError(error: ServeError): string {
  return `data: ${JSON.stringify(openAiErrorBody(error))}\n\ndata: [DONE]\n\n`;
}

export function anthropicErrorBody(error: ServeError, requestId: string): object {
  return {
    type: 'error',
    error: { type: codeRow(error.code).anthropicType, message: error.message },
    request_id: requestId,
  };
}
