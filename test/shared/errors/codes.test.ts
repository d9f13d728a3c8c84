import { describe, expect, it } from 'vitest';
import { errorCodes, isErrorCode } from '../../../shared/errors/codes.ts';
import {
  anthropicErrorBody,
  codeRow,
  type ErrorCode,
  openAiErrorBody,
  openAiStreamError,
  ServeError,
} from '../../../shared/errors/index.ts';

/** The error table: status, OpenAI's type, the metric label, Anthropic's type. */
const TABLE: readonly (readonly [ErrorCode, status: number, type: string, anthropic: string, metric: string])[] = [
  ['invalid_value', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['missing_required_parameter', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['unknown_parameter', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['invalid_json', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['context_length_exceeded', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['unsupported_parameter', 400, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['invalid_api_key', 401, 'invalid_request_error', 'authentication_error', 'validation'],
  ['insufficient_permissions', 403, 'invalid_request_error', 'permission_error', 'validation'],
  ['model_not_found', 404, 'invalid_request_error', 'not_found_error', 'not_found'],
  ['not_found', 404, 'invalid_request_error', 'not_found_error', 'not_found'],
  ['websocket_not_supported', 426, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['previous_response_not_found', 404, 'invalid_request_error', 'not_found_error', 'not_found'],
  ['method_not_allowed', 405, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['request_too_large', 413, 'invalid_request_error', 'request_too_large', 'validation'],
  ['unsupported_media_type', 415, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['headers_too_large', 431, 'invalid_request_error', 'invalid_request_error', 'validation'],
  ['rate_limit_exceeded', 429, 'rate_limit_error', 'rate_limit_error', 'overload'],
  ['insufficient_quota', 429, 'rate_limit_error', 'rate_limit_error', 'overload'],
  ['client_closed_request', 499, 'invalid_request_error', 'api_error', 'cancelled'],
  ['internal_error', 500, 'server_error', 'api_error', 'internal'],
  ['bad_worker_response', 502, 'server_error', 'api_error', 'internal'],
  ['not_implemented', 501, 'server_error', 'api_error', 'not_implemented'],
  ['server_overloaded', 503, 'overloaded_error', 'overloaded_error', 'overload'],
  ['service_unavailable', 503, 'server_error', 'overloaded_error', 'unavailable'],
  ['worker_lost', 503, 'server_error', 'overloaded_error', 'unavailable'],
  ['deadline_exceeded', 504, 'server_error', 'api_error', 'response_timeout'],
];

describe('the table of codes', () => {
  it('is the ruling’s, no code more and none less', () => {
    expect([...errorCodes].sort()).toEqual(TABLE.map(([code]) => code).sort());
  });

  it.each(TABLE)('gives %s status %i and its types', (code, status, type, anthropicType, metric) => {
    const error = new ServeError(code, 'text', { param: 'messages[0]' });
    expect(error.status).toBe(status);
    expect(codeRow(code).status).toBe(status);
    expect(codeRow(code).metric).toBe(metric);
    expect(openAiErrorBody(error)).toEqual({ error: { message: 'text', type, param: 'messages[0]', code } });
    expect(anthropicErrorBody(error, 'req_1')).toEqual({
      type: 'error',
      error: { type: anthropicType, message: code === 'context_length_exceeded' ? 'prompt is too long: text' : 'text' },
      request_id: 'req_1',
    });
    expect(isErrorCode(code)).toBe(true);
  });

  it('keeps a client mistake, a full system and a broken system apart in logs and on gRPC', () => {
    expect(errorCodes.filter((code) => codeRow(code).level === 'error').sort()).toEqual([
      'bad_worker_response',
      'internal_error',
    ]);
    expect(errorCodes.filter((code) => codeRow(code).status < 429 && codeRow(code).level !== 'debug')).toEqual([]);
    for (const code of errorCodes) {
      expect(codeRow(code).grpc).toBeGreaterThanOrEqual(1);
      expect(codeRow(code).grpc).toBeLessThanOrEqual(16);
    }
  });

  it('does not take names of every object for codes', () => {
    for (const name of ['toString', '__proto__', 'constructor', '', 'Invalid_Value'])
      expect(isErrorCode(name)).toBe(false);
  });
});

describe('error bodies', () => {
  it('carry null where there is no field to name', () => {
    expect(openAiErrorBody(new ServeError('not_found', 'gone')).error.param).toBeNull();
  });

  it('end a stream with the error and [DONE]', () => {
    expect(openAiStreamError(new ServeError('worker_lost', 'Service temporarily unavailable'))).toBe(
      'data: {"error":{"message":"Service temporarily unavailable","type":"server_error","param":null,"code":"worker_lost"}}\n\n' +
        'data: [DONE]\n\n',
    );
  });
});
