/**
 * @module protocol/kserve
 * KServe v2 (Triton's dialect of it) as messages, tensors and records of workers: what of gRPC needs no server.
 */
export { completionsOf, type InferCompletions } from './completions-request.ts';
export { decodeModelInferRequest, encodeModelInferResponse, encodeModelStreamInferResponse } from './infer-codec.ts';
export {
  DATA_TYPES,
  type DataType,
  type FramedBytes,
  type InferParameter,
  type InferParameters,
  type InferTensor,
  type Int64,
  type ModelInferRequest,
  type ModelInferResponse,
  type ModelStreamInferResponse,
  NO_PARAMETERS,
  recordTypeOf,
  type TensorContents,
  wireNameOf,
} from './messages.ts';
export { framedBytes, framedStrings } from './tensor-contents.ts';
export {
  BadTensorResponse,
  type TensorRecord,
  type TensorRequestRecord,
  type TensorResponseRecord,
  tensorRequestOf,
  tensorResponseOf,
} from './tensor-record.ts';
export { readTensor, type TensorElements, type TensorValues, writeTensor } from './tensor-values.ts';
