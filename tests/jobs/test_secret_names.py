"""Names of secrets, and names that only look like them: both by long lists of what is in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.backends import BUILTIN
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.secret_names import holds_secret, is_secret_name, is_secret_option

_SECRET = """
AI21_API_KEY AIRTABLE_API_KEY ALGOLIA_API_KEY ANSIBLE_VAULT_PASSWORD ANTHROPIC_API_KEY APP_SECRET ARTIFACTORY_PASSWORD
ASSEMBLYAI_API_KEY AUTH_TOKEN AWS_SECRET_ACCESS_KEY AWS_SECURITY_TOKEN AWS_SESSION_TOKEN AZURE_CLIENT_SECRET
AZURE_DEVOPS_EXT_PAT AZURE_OPENAI_API_KEY AZURE_OPENAI_KEY AZURE_STORAGE_CONNECTION_STRING AZURE_STORAGE_KEY
AZURE_STORAGE_SAS_TOKEN B2_APPLICATION_KEY BITBUCKET_APP_PASSWORD BORG_PASSPHRASE BUILDKITE_AGENT_TOKEN CI_JOB_JWT
CI_JOB_TOKEN CIRCLECI_TOKEN CLEARML_API_SECRET_KEY CLIENT_SECRET CLOUDFLARE_API_TOKEN CODECOV_TOKEN COHERE_API_KEY
COMET_API_KEY CONSUL_HTTP_TOKEN DATABASE_PASSWORD DATABRICKS_TOKEN DBPASS DB_PASS DB_PASSWORD DD_API_KEY DD_APP_KEY
DEEPGRAM_API_KEY DEEPSEEK_API_KEY DGX_CLIENT_SECRET DIGITALOCEAN_ACCESS_TOKEN DISCORD_TOKEN DJANGO_SECRET_KEY
DOCKER_AUTH_CONFIG DOCKER_PASSWORD ELASTIC_PASSWORD ENCRYPTION_KEY FIREWORKS_API_KEY GCP_SA_KEY GEMINI_API_KEY
GH_TOKEN GITHUB_PAT GITHUB_TOKEN GITLAB_TOKEN GIT_PASSWORD GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS
GOOGLE_CLIENT_SECRET GPG_PASSPHRASE GRAFANA_API_KEY GROQ_API_KEY HEROKU_API_KEY HF_HUB_TOKEN HF_TOKEN HF_TOKEN_2
HUGGING_FACE_HUB_TOKEN HUGGINGFACEHUB_API_TOKEN INFLUXDB_TOKEN JENKINS_API_TOKEN JWT_SECRET KAGGLE_KEY
KEYSTORE_PASSWORD LABEL_STUDIO_API_KEY LANGCHAIN_API_KEY LANGSMITH_API_KEY LDAP_BIND_PW LDAP_PASSWORD LEPTON_API_TOKEN
MAILGUN_API_KEY MINIO_ROOT_PASSWORD MINIO_SECRET_KEY MISTRAL_API_KEY MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_TOKEN
MONGO_INITDB_ROOT_PASSWORD MYSQL_PWD MYSQL_ROOT_PASSWORD MY_PASSWORD NEPTUNE_API_TOKEN NETLIFY_AUTH_TOKEN NGC_API_KEY
NGC_CLI_API_KEY NOMAD_TOKEN NOTION_TOKEN NPM_TOKEN NVIDIA_API_KEY OAUTH_CLIENT_SECRET OPENAI_API_KEY
OPENROUTER_API_KEY OP_SERVICE_ACCOUNT_TOKEN PGPASSWORD PINECONE_API_KEY POSTGRES_PASSWORD PRIVATE_KEY PYPI_TOKEN
QDRANT_API_KEY RABBITMQ_DEFAULT_PASS REDISCLI_AUTH REDIS_PASSWORD REGISTRY_TOKEN REPLICATE_API_TOKEN RESTIC_PASSWORD
RUNPOD_API_KEY S3_SECRET_KEY SECRET SECRET_KEY SECRET_KEY_BASE SENDGRID_API_KEY SENTRY_AUTH_TOKEN SERPAPI_API_KEY
SLACK_BOT_TOKEN SLACK_WEBHOOK_URL SMTP_PASSWORD SNOWFLAKE_PASSWORD SNOWFLAKE_PRIVATE_KEY_PASSPHRASE SONAR_TOKEN
SSHPASS SSH_PRIVATE_KEY STRIPE_SECRET_KEY SWIFT_PASSWORD TELEGRAM_BOT_TOKEN TF_VAR_db_password TOGETHER_API_KEY TOKEN
TWILIO_AUTH_TOKEN TWINE_PASSWORD USER_TOKEN VAULT_TOKEN VERCEL_TOKEN VOYAGE_API_KEY WANDB_API_KEY WEAVIATE_API_KEY
WEBHOOK_SECRET X_API_KEY ZENODO_ACCESS_TOKEN
access_key access_token accesskey apiKey api_key api_token apikey app_secret auth_token bearer_token client-secret
client_secret clientSecret db_password dgx_client_secret docker_password git_token google_api_key hf_token hfToken
hub_token huggingface_token identity_token lepton_auth_token lepton_token lepton_workspace_token netrc_password
ngc_key openai_api_key passphrase passwd password private_key push_to_hub_token refresh_token registry_password
registry_token secret_access_key secret_key secretAccessKey wandb_api_key wandb_key X-Amz-Signature
X-Amz-Security-Token x-api-key Authorization
"""

_READABLE = """
PATH HOME USER SHELL LANG TERM PWD OLDPWD SHLVL HOSTNAME SSH_AUTH_SOCK SSH_CONNECTION XAUTHORITY KRB5CCNAME
HF_HOME HF_TOKEN_PATH HF_HUB_OFFLINE HF_ENDPOINT TRANSFORMERS_CACHE TOKENIZERS_PARALLELISM WANDB_PROJECT WANDB_ENTITY
WANDB_MODE WANDB_BASE_URL WANDB_API_KEY_FILE AWS_ACCESS_KEY_ID AWS_REGION AWS_PROFILE AWS_SHARED_CREDENTIALS_FILE
AWS_ENDPOINT_URL S3_KEY PUBLIC_KEY CACHE_KEY NGC_TEAM NVIDIA_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES NCCL_DEBUG
NCCL_IB_HCA NCCL_SOCKET_IFNAME PYTORCH_CUDA_ALLOC_CONF OMP_NUM_THREADS MASTER_ADDR MASTER_PORT WORLD_SIZE RANK
MAX_TOKENS NUM_TOKENS EOS_TOKEN PAD_TOKEN PGPASSFILE PGHOST VAULT_ADDR GITHUB_SHA GITHUB_TOKEN_FILE API_KEY_NAME
OPENAI_BASE_URL SLURM_JOB_ID PYTHONPATH LD_LIBRARY_PATH MKL_NUM_THREADS
tokenizer tokenizer_name tokenizer_name_or_path tokenizer_path tokenizer_type tokenizer_model tokenizer_config
tokenizer_revision use_fast_tokenizer token token_count token_type token_type_ids token_ids tokens tokens_per_step
tokens_per_second tokens_per_gpu tokens_per_epoch tokens_to_generate train_tokens num_tokens num_train_tokens
n_tokens max_tokens max_new_tokens min_new_tokens max_num_batched_tokens max_tokens_per_batch max_prompt_tokens
max_completion_tokens total_tokens seen_tokens consumed_tokens global_tokens special_tokens additional_special_tokens
special_tokens_map add_special_tokens skip_special_tokens split_special_tokens added_tokens_decoder
eos_token eos_token_id bos_token bos_token_id pad_token pad_token_id unk_token unk_token_id sep_token sep_token_id
cls_token cls_token_id mask_token mask_token_id image_token image_token_id image_token_index audio_token
audio_token_id video_token video_token_id vision_start_token vision_start_token_id vision_end_token
decoder_start_token_id forced_bos_token_id forced_eos_token_id begin_suppress_tokens suppress_tokens
add_bos_token add_eos_token add_prefix_space stop_token stop_tokens stop_token_ids start_token end_token prompt_token
think_token response_token instruction_token context_token separator_token padding_token delimiter_token
fim_prefix_token fim_middle_token fim_suffix_token im_start_token im_end_token tool_call_token speaker_token
language_token timestamp_token loss_per_token cost_per_token flops_per_token time_per_token time_to_first_token
ignore_token_id image_seq_length reset_attention_mask_per_token calculate_per_token_loss create_attention_mask
num_virtual_tokens virtual_tokens prompt_tuning_init_text moe_token_dispatcher_type moe_token_drop_policy
moe_expert_capacity_factor moe_pad_expert_input_to_capacity token_dropping vocab_size vocab_file merges_file
padded_vocab_size make_vocab_size_divisible_by embedding_tie share_embeddings_and_output_weights
key keys key_value_channels kv_channels num_key_value_heads key_padding_mask query_key_scaling qk_layernorm
apply_query_key_layer_scaling json_keys text_key image_key prompt_key input_key output_key label_key chosen_key
rejected_key sort_key primary_key cache_key dataset_key metric_key data_key column_key messages_key state_dict_key
public_key keys_to_ignore tie_word_embeddings monitor_key partition_key secrets secret_vars image_pull_secrets
secretary passing passes forward_pass backward_pass num_passes bypass auth author authors pat pattern patterns cookie
pwd credentials_file password_file private_key_path api_key_env api_key_env_var api_key_name api_key_file
hub_model_id hub_strategy hub_private_repo push_to_hub push_to_hub_model_id push_to_hub_organization report_to
learning_rate lr min_lr lr_scheduler_type lr_warmup_iters weight_decay adam_beta1 adam_beta2 adam_epsilon
max_grad_norm clip_grad num_train_epochs max_steps train_iters global_batch_size micro_batch_size
per_device_train_batch_size gradient_accumulation_steps gradient_checkpointing warmup_ratio warmup_steps
logging_steps log_interval save_steps save_interval save_total_limit eval_steps eval_interval eval_iters
evaluation_strategy seed data_seed bf16 fp16 fp8 tf32 optim optimizer hidden_size ffn_hidden_size num_layers
num_attention_heads num_query_groups seq_length max_seq_length max_position_embeddings rotary_base rotary_percent
position_embedding_type normalization layernorm_epsilon activation_func attention_dropout hidden_dropout
tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size
sequence_parallel distributed_backend ckpt_format dist_ckpt_format data_path split dataloader_type num_workers
dataset_text_field packing beta loss_type sync_ref_model ref_model_mixup_alpha max_prompt_length
max_completion_length num_generations temperature top_k top_p repetition_penalty lora_r lora_alpha lora_dropout
lora_target_modules peft_type task_type modules_to_save wandb_project wandb_exp_name tensorboard_dir save load
pretrained_checkpoint trust_remote_code attn_implementation torch_dtype device_map output_dir overwrite_output_dir
"""
SECRET, READABLE = _SECRET.split(), _READABLE.split()


def test_the_lists_are_long():
    assert len(set(SECRET)) >= 150
    assert len(set(READABLE)) >= 250


@pytest.mark.parametrize("name", SECRET)
def test_usual_names_of_secrets(name):
    assert is_secret_name(name)
    assert is_secret_option(name)
    if name != "TOKEN":
        assert is_secret_name(name.lower().replace("_", "-")) or name in ONLY_IN_CAPITALS


ONLY_IN_CAPITALS = {
    "AZURE_DEVOPS_EXT_PAT", "CI_JOB_JWT", "DB_PASS", "ENCRYPTION_KEY", "GCP_SA_KEY", "GITHUB_PAT", "LDAP_BIND_PW",
    "MYSQL_PWD", "RABBITMQ_DEFAULT_PASS", "REDISCLI_AUTH", "AZURE_OPENAI_KEY",
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_usual_names_of_other_things(name):
    assert not is_secret_name(name)


WORD = st.sampled_from(["my", "prod", "ci", "acme", "v2", "team_a", "x"])
ENDS = ["TOKEN", "API_KEY", "SECRET", "PASSWORD", "CREDENTIALS", "ACCESS_KEY", "PRIVATE_KEY", "PASSPHRASE", "PASSWD"]


@given(st.lists(WORD, min_size=1, max_size=3), st.sampled_from(ENDS), st.sampled_from("_-"))
def test_what_ends_like_a_secret_is_one_however_it_is_written(words, end, between):
    parts = [*words, *end.lower().split("_")]
    camel = parts[0] + "".join(part.capitalize() for part in "_".join(parts[1:]).split("_"))
    for name in (between.join(parts), between.join(parts).upper(), camel, f"{between.join(parts).upper()}_3"):
        assert is_secret_name(name), name


@given(st.sampled_from(SECRET), st.sampled_from(["FILE", "PATH", "NAME", "COUNT", "ENV_VAR", "IDS", "izer", "URL_X"]))
def test_what_only_holds_such_a_word_is_none(name, end):
    assert not is_secret_name(f"{name}_{end if name.isupper() else end.lower()}")


@given(st.sampled_from(["max", "num", "n", "total", "train", "per_gpu"]), st.sampled_from(["_per_step", "", "_count"]))
def test_counts_of_tokens_are_readable(before, after):
    for name in (f"{before}_tokens{after}", f"tokens_{before}{after}", f"{before.upper()}_TOKENS{after.upper()}"):
        assert not is_secret_name(name)


@pytest.mark.parametrize("executor", sorted(BUILTIN))
def test_the_fields_of_profiles(executor):
    """What a profile may say is readable, but for the fields that are declared secret."""
    wrong = [f.name for f in fields_of(executor).fields.values() if is_secret_name(f.name) and not f.secret]
    assert wrong == []


def test_values_that_are_no_secrets():
    assert holds_secret("api_key", "abc")
    assert holds_secret("api_key", 4711)
    for value in (
        None,
        "",
        True,
        False,
        0.5,
        1,
        "1",
        "0",
        "true",
        "off",
        "<|assistant|>",
        "[INST]",
        "${HF_TOKEN}",
        "$HF_TOKEN",
    ):
        assert not holds_secret("assistant_token", value)


def test_an_option_may_be_called_token():
    assert is_secret_option("token")
    assert not is_secret_option("tokenizer")
    assert not is_secret_option("eos-token")
