//! Does a message say that the prompt does not fit the model's window?
//!
//! No provider has a stable machine code for it, so the wordings are a table. It is the one part of the
//! error taxonomy that needs upkeep: add a line with the wording and where it was seen. A wording is a
//! list of fragments that must all occur, in lower case; look-alikes that mean something else come
//! first and win.

/// Wordings that look like an overflow and are not: a cap, a name or a rate that is too large.
const LOOK_ALIKES: &[&[&str]] = &[
    // The caller's output cap is over the model's own limit; a bigger window does not help.
    &["max_tokens is too large"],
    &["max_tokens", "too long"],
    &["max_completion_tokens is too large"],
    &["max_tokens:", "maximum allowed number of output tokens"],
    &["maxoutputtokens", "out of"],
    &["max_output_tokens", "must be"],
    // A name, an id or a single string.
    &["name", "too long", "maximum length"],
    &["name too long"],
    &["name is too long"],
    &["string too long"],
    &["url is too long"],
    &["id too long"],
    // Time and rates.
    &["too long to respond"],
    &["took too long"],
    &["taking too long"],
    &["tokens per min"],
    &["tokens per day"],
    &["rate limit"],
    // A header or the stop list.
    &["stop sequence", "too long"],
    &["header", "too long"],
];

/// Wordings of an overflow.
const WORDINGS: &[&[&str]] = &[
    &["maximum context length"], // OpenAI, vLLM: "This model's maximum context length is N tokens"
    &["longer than the model's context length"], // SGLang
    &["longer than the context"],
    &["context length", "exceed"],        // Groq, Fireworks, DeepSeek
    &["context window", "exceed"],        // OpenAI Responses, Cerebras
    &["context limit", "exceed"], // Anthropic: "input length and `max_tokens` exceed context limit: A + B > C"
    &["context size", "exceed"],  // llama.cpp: "exceeds the available context size"
    &["context", "overflow"],     // LM Studio
    &["greater than the context length"], // LM Studio: "The number of tokens to keep from the initial prompt is greater than the context length"
    &["prompt is too long"],              // Anthropic: "prompt is too long: N tokens > M maximum"
    &["prompt too long"],                 // Ollama: "prompt too long; exceeded max context length"
    &["input is too long"],               // Bedrock: "Input is too long for requested model"
    &["input context is too long"],       // Gemini, 500 INTERNAL
    &["input or output tokens", "too long"],
    &["input token count", "exceed"], // Gemini: "The input token count (N) exceeds the maximum number of tokens allowed (M)"
    &["prompt token count", "exceed"], // GitHub Copilot: "prompt token count of N exceeds the limit of M"
    &["exceeds the maximum number of tokens"],
    &["exceeds the maximum allowed input length"],
    &["maximum prompt length"], // xAI: "This model's maximum prompt length is N but the request contains M tokens"
    &["input tokens", "exceed"], // Mistral, Together: "`inputs` tokens + `max_new_tokens` must be <="
    &["tokens + `max_new_tokens` must be"], // TGI
    &["too many tokens"], // Cohere: "too many tokens: total number of tokens in the prompt cannot exceed"
    &["too large for model with", "maximum context"], // Mistral: "Prompt contains N tokens ... too large for model with M maximum context length"
    &["reduce the length of the messages"],           // OpenAI, Groq
];

/// Whether `message` is about the window.
#[must_use]
pub fn is_overflow(message: &str) -> bool {
    // Far longer than any real one, and a bound on the work.
    let message: String = message
        .chars()
        .take(4_096)
        .collect::<String>()
        .to_lowercase();
    let any = |table: &[&[&str]]| {
        table
            .iter()
            .any(|fragments| fragments.iter().all(|fragment| message.contains(fragment)))
    };
    !any(LOOK_ALIKES) && any(WORDINGS)
}

#[cfg(test)]
mod tests {
    use super::is_overflow;

    #[test]
    fn r15_tr07_real_wordings_match() {
        for message in [
            "This model's maximum context length is 200 tokens. However, your messages resulted in 2500 tokens.",
            "The prompt is longer than the model's context length",
            "input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000, decrease input length or `max_tokens` and try again",
            "prompt token count of 140000 exceeds the limit of 128000",
            "prompt is too long: 2500 tokens > 200 maximum",
            "The input token count (2500) exceeds the maximum number of tokens allowed (200).",
            "request (3031 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            "Input is too long for requested model.",
            "Please reduce the length of the messages or completion.",
            "Your input context is too long. Reduce it or switch to another model.",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        ] {
            assert!(is_overflow(message), "{message}");
        }
    }

    #[test]
    fn r15_tr07_look_alikes_do_not() {
        for message in [
            "max_tokens is too large: 200000. This model supports at most 16384 completion tokens",
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for this model",
            "max_tokens too long",
            "name too long: 'a_very_long_name'",
            "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
            "The model took too long to respond",
            "Request too large for gpt-4o on tokens per min (TPM): Limit 10000, Requested 12000",
            "Rate limit reached: context length does not exceed",
            "Unknown field context_length",
            "",
        ] {
            assert!(!is_overflow(message), "{message}");
        }
    }
}
