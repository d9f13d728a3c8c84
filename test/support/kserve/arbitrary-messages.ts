import fc from 'fast-check';

/* Messages of KServe in proto JSON, as wide as their types allow. */

const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const int64 = fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.bigInt(-300n, 300n)).map(String);
const uint64 = fc.oneof(fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(0n, 300n)).map(String);
const int32 = fc.oneof(fc.integer(), fc.integer({ min: -200, max: 200 }));
const uint32 = fc.oneof(fc.nat({ max: 2 ** 32 - 1 }), fc.nat({ max: 300 }));
const base64 = fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString('base64'));
const few = <T>(each: fc.Arbitrary<T>) => fc.array(each, { maxLength: 4 });

const parameter = fc.oneof(
  fc.constant({}),
  fc.boolean().map((value) => ({ bool_param: value })),
  int64.map((value) => ({ int64_param: value })),
  text.map((value) => ({ string_param: value })),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => ({ double_param: value })),
  uint64.map((value) => ({ uint64_param: value })),
);
const parameters = fc.dictionary(text, parameter, { maxKeys: 3 });

const lists = fc.record(
  {
    bool_contents: few(fc.boolean()),
    int_contents: few(int32),
    int64_contents: few(int64),
    uint_contents: few(uint32),
    uint64_contents: few(uint64),
    fp32_contents: few(fc.float({ noNaN: true, noDefaultInfinity: true })),
    fp64_contents: few(fc.double({ noNaN: true, noDefaultInfinity: true })),
    bytes_contents: few(base64),
  },
  { requiredKeys: [] },
);
/** Some without contents, which eight lists hardly ever generate by chance. */
const contents = fc.oneof({ weight: 9, arbitrary: lists }, { weight: 1, arbitrary: fc.constant({}) });

const tensor = fc.record({ name: text, datatype: text, shape: few(int64), parameters, contents }, { requiredKeys: [] });

export const inferRequests = fc.record(
  {
    model_name: text,
    model_version: text,
    id: text,
    parameters,
    inputs: few(tensor),
    outputs: few(fc.record({ name: text, parameters }, { requiredKeys: [] })),
    raw_input_contents: few(base64),
  },
  { requiredKeys: [] },
);

export const inferResponses = fc.record(
  {
    model_name: text,
    model_version: text,
    id: text,
    parameters,
    outputs: few(tensor),
    raw_output_contents: few(base64),
  },
  { requiredKeys: [] },
);
