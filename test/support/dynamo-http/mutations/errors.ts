import type { Body } from '../fields.ts';
import { anyObject, type EditableAnswer, type Mutation, ofAnswer, put } from './edit.ts';

/** Calls `change` with every error object of the answer. Returns whether it changed one. */
function anyError(answer: EditableAnswer, change: (error: Body) => boolean): boolean {
  return anyObject(answer, ({ error }) => {
    const isError = typeof error === 'object' && error !== null && 'message' in error;
    return isError && change(error as Body);
  });
}

/** Makes a mutation that swaps a code for another one of the same status. */
function swapCode(name: string, status: number, codes: readonly [string, string]): Mutation {
  return ofAnswer(name, (answer) =>
    anyError(answer, (error) => {
      if (answer.status !== status || typeof error.code !== 'string') return false;
      return put(
        error,
        'code',
        codes.find((code) => code !== error.code),
      );
    }),
  );
}

const LEAD_IN = /^(Failed to deserialize the JSON body into the target type: ).*$/s;

/** Errors that name another fault than the real one. */
export const ERRORS: readonly Mutation[] = [
  ofAnswer("every error's param is garbage", (answer) =>
    anyError(answer, (error) => 'param' in error && put(error, 'param', 'zzz')),
  ),
  ofAnswer("every error's param is null", (answer) =>
    anyError(answer, (error) => error.param != null && put(error, 'param', null)),
  ),
  ofAnswer('param missing', (answer) => anyError(answer, (error) => 'param' in error && delete error.param)),
  swapCode('a 400 code swapped', 400, ['invalid_json', 'context_length_exceeded']),
  swapCode('a 400 code less exact', 400, ['invalid_value', 'unsupported_parameter']),
  swapCode('a 404 code swapped', 404, ['not_found', 'model_not_found']),
  swapCode('a 503 code swapped', 503, ['worker_lost', 'service_unavailable']),
  ofAnswer('code is a number', (answer) =>
    anyError(answer, (error) => typeof error.code === 'string' && put(error, 'code', answer.status)),
  ),
  ofAnswer('type of another status', (answer) =>
    anyError(answer, (error) =>
      put(error, 'type', error.type === 'server_error' ? 'invalid_request_error' : 'server_error'),
    ),
  ),
  ofAnswer('field name cut from a deserialisation error', (answer) =>
    anyError(
      answer,
      (error) =>
        LEAD_IN.test(String(error.message)) && put(error, 'message', String(error.message).replace(LEAD_IN, '$1')),
    ),
  ),
  ofAnswer('message missing', (answer) => anyError(answer, (error) => put(error, 'message', ''))),
  ofAnswer('error in a flat body', (answer) => {
    const { error } = answer.body ?? {};
    if (typeof error !== 'object' || error === null) return false;
    answer.body = error as Body;
    return true;
  }),
  ofAnswer("error in the other dialect's envelope", (answer) => {
    const { error, type } = answer.body ?? {};
    if (typeof error !== 'object' || error === null) return false;
    const { message } = error as Body;
    const other =
      type === 'error'
        ? { message, type: 'invalid_request_error', param: null, code: null }
        : { type: 'api_error', message };
    answer.body = type === 'error' ? { error: other } : { type: 'error', error: other, request_id: 'req_0123456789ab' };
    return true;
  }),
  ofAnswer('status swapped', (answer) => {
    answer.status = answer.status === 400 ? 422 : answer.status === 200 ? 201 : 400;
    return true;
  }),
  ofAnswer('an error in a 200', (answer) => {
    if (answer.status < 400) return false;
    answer.status = 200;
    return true;
  }),
  ofAnswer('an error reported as overload', (answer) =>
    anyError(answer, (error) => put(error, 'message', 'Service temporarily overloaded')),
  ),
];
