/**
 * Formats under the names that the configuration accepts (`shared/config/parser-names.ts`). To add one: its file here,
 * its line below, its name there.
 */
export { apertus } from './apertus.ts';
export { cohereCommand as cohere_command4 } from './cohere-command.ts';
export { deepseekV3 as deepseek_v3, deepseekV31 as deepseek_v3_1 } from './deepseek.ts';
export { dots } from './dots.ts';
export {
  deepseekV4 as deepseek_v4,
  deepseekV32 as deepseek_v3_2,
  deepseekV41 as deepseek_v41,
  gigachat35,
} from './dsml.ts';
export { functionGemma as functiongemma, gemma4 } from './gemma.ts';
export { gigachat3 } from './gigachat3.ts';
export { glm47, glm47 as glm45, poolsideV1 as poolside_v1 } from './glm.ts';
export { granite } from './granite.ts';
export { granite20bFc as granite_20b_fc } from './granite-20b-fc.ts';
export { harmony } from './harmony.ts';
export { hermes } from './hermes.ts';
export { hunyuan as hy_v3 } from './hunyuan.ts';
export { inkling } from './inkling.ts';
export { internlm } from './internlm.ts';
export { jamba } from './jamba.ts';
export { kimiK2 as kimi_k2, kimiK2 as kimi_k25 } from './kimi-k2.ts';
export { kimiK3 as kimi_k3 } from './kimi-k3.ts';
export { lfm2 } from './lfm2.ts';
export { llama3Json as llama3_json } from './llama3-json.ts';
export { longcat } from './longcat.ts';
export { minicpm5 } from './minicpm5.ts';
export { minimaxM2 as minimax_m2 } from './minimax-m2.ts';
export { minimaxM3 as minimax_m3, minimaxM3 as minimax_m3_nom } from './minimax-m3.ts';
export { mistral } from './mistral.ts';
export { museGlimmer as muse_glimmer } from './muse-glimmer.ts';
export { nemotronDeci as nemotron_deci } from './nemotron-deci.ts';
export { olmo3 } from './olmo3.ts';
export { phi4 } from './phi4.ts';
export { plamo3 } from './plamo3.ts';
export { pythonic } from './pythonic.ts';
export {
  qwen3Coder as nemotron_nano,
  qwen3Coder as qwen3,
  qwen3Coder as qwen3_coder,
  seedOss as seed_oss,
} from './qwen3-coder.ts';
export { qwen25 } from './qwen25.ts';
export { solarOpen2 as solar_open2 } from './solar-open2.ts';
export { step3 } from './step3.ts';
export { xlam } from './xlam.ts';
