//! What has to fit between routes, traffic and policies before anything is run.

use super::Experiment;
use super::episode::World;
use crate::catalogue::{Catalogue, Requirement};
use crate::policy::Unit;
use crate::router::RouteId;
use crate::source::{Diagnostic, Diagnostics, Location, describe_list, nearest};
use crate::standin::outcome::NOT_IN_WORLD;
use crate::units::{Duration, mix64};

/// Resolves names between catalogue and workload; everything that does not fit is reported at once.
pub(super) fn prepare<'a>(
    experiment: &Experiment<'a>,
    warnings: &mut Diagnostics,
) -> Result<World<'a>, Diagnostics> {
    let (catalogue, workload) = (experiment.catalogue, experiment.workload);
    let mut wrong = Diagnostics::default();
    let world: Vec<u16> = catalogue
        .names()
        .map(|name| {
            let index = workload.routes.iter().position(|known| known == name);
            index.map_or(NOT_IN_WORLD, |index| index as u16)
        })
        .collect();
    // The file of the catalogue, for complaints that have no line.
    let file = |route: &crate::catalogue::Route| match &route.location {
        Some(Location::Span { file, .. }) => Some(Location::File {
            path: file.path.clone(),
        }),
        _ => None,
    };
    let in_catalogue = |mut one: Diagnostic| {
        one.location = catalogue.routes.first().and_then(file);
        one
    };
    let nothing_in_common = world.iter().all(|index| *index == NOT_IN_WORLD);
    if nothing_in_common {
        wrong.push(in_catalogue(
            Diagnostic::error(format!(
                "workload `{}` and the route catalogue have no route in common",
                workload.name
            ))
            .help(format!(
                "the workload knows {}; the catalogue knows {}; name another catalogue with --routes",
                describe_list(workload.routes.iter().map(String::as_str)),
                describe_list(catalogue.names()),
            )),
        ));
    }
    for policy in experiment.policies {
        if experiment.controls && is_control(&policy.name, catalogue) {
            wrong.push(
                Diagnostic::error(format!(
                    "a policy may not be called `{}`: a control has that name",
                    policy.name
                ))
                .help("rename the policy's file: its name is the policy's name"),
            );
        }
        for verifier in policy.spec.verifiers() {
            for mut unfit in verifier.unfit_for_stand_ins() {
                unfit.message = format!("policy `{}`: {}", policy.name, unfit.message);
                wrong.push(unfit);
            }
        }
        let mut said: Vec<RouteId> = Vec::new();
        for route in policy.spec.routes() {
            if nothing_in_common || world[route.0 as usize] != NOT_IN_WORLD || said.contains(&route)
            {
                continue;
            }
            said.push(route);
            let name = &catalogue.routes[route.0 as usize].name;
            wrong.push(in_catalogue(
                Diagnostic::error(format!(
                    "policy `{}` may send requests to `{name}`, about which workload `{}` knows nothing",
                    policy.name, workload.name
                ))
                .help(format!(
                    "it knows {}",
                    describe_list(workload.routes.iter().map(String::as_str))
                )),
            ));
        }
    }
    // Requirements by (tenant, data class), the last row and column standing for "none".
    let tenants = workload
        .tenants
        .iter()
        .map(|name| Some(name.as_str()))
        .chain([None]);
    let classes: Vec<Option<&str>> = workload
        .data_classes
        .iter()
        .map(|name| Some(name.as_str()))
        .chain([None])
        .collect();
    let mut requirements = Vec::new();
    for tenant in tenants {
        for class in &classes {
            requirements.push(
                catalogue
                    .requirement(tenant, *class)
                    .unwrap_or(Requirement::NONE),
            );
        }
    }
    for class in &workload.data_classes {
        if !catalogue.made_up && !catalogue.data_classes.contains_key(class) {
            wrong.push(in_catalogue(
                Diagnostic::error(format!(
                    "workload `{}` has requests of data class `{class}`, for which the catalogue has no rule",
                    workload.name
                ))
                .help(format!(
                    "add `[require.data_class.{class}]` with its `residency` to the route catalogue"
                )),
            ));
        }
    }
    let mut unmatched = Vec::new();
    let sorts = [
        ("tenant", &catalogue.tenants, &workload.tenants),
        (
            "data class",
            &catalogue.data_classes,
            &workload.data_classes,
        ),
    ];
    for (what, rules, known) in sorts {
        for rule in rules.keys().filter(|rule| !known.contains(rule)) {
            // Data may well not hold every tenant; a name that is nearly one of its tenants is a slip, and
            // it would leave that tenant's data without its rule.
            let near = nearest(rule, known.iter().map(String::as_str));
            let Some(near) = near.filter(|near| !rules.contains_key(*near)) else {
                continue;
            };
            let text = format!(
                "no request has {what} `{rule}`, for which the catalogue has a rule, but some have {what} `{near}`"
            );
            let help = "write the two names alike: a rule holds for the name as it is written";
            if near.eq_ignore_ascii_case(rule) {
                wrong.push(in_catalogue(Diagnostic::error(text).help(help)));
            } else {
                unmatched.push(in_catalogue(Diagnostic::warning(text).help(help)));
            }
        }
    }
    if workload.tenants.is_empty() && !catalogue.tenants.is_empty() {
        unmatched.push(in_catalogue(Diagnostic::warning(format!(
            "no request of workload `{}` has a tenant, so the catalogue's rules for tenants hold for nobody",
            workload.name
        ))));
    }
    let endless = catalogue
        .router
        .routes
        .iter()
        .find(|route| route.limits.attempt == Duration::MAX);
    if let (Some(stage), Some(route)) = (experiment.stage, endless)
        && stage.faults.can_hang()
    {
        wrong.push(in_catalogue(
            Diagnostic::error(format!(
                "the fault script lets answers stall, and an attempt at route `{}` has no time limit, so it would wait for ever",
                route.name
            ))
            .help("set `attempt_max_s` in `[router]`, or take `stall` and `keep_alives_only` out of the script"),
        ));
    }
    if let Some(unit) = experiment.cluster
        && !match unit {
            Unit::Request => true,
            Unit::User => workload.has_users(),
            Unit::Session => workload.has_sessions(),
            Unit::Tenant => !workload.tenants.is_empty(),
        }
    {
        wrong.push(
            Diagnostic::error(format!(
                "workload `{}` does not say which requests share a {}, so there is nothing to cluster by",
                workload.name,
                unit.name()
            ))
            .help("leave --cluster out, or name the column (or the number) in the workload file"),
        );
    }
    if wrong.has_errors() {
        return Err(wrong);
    }
    warnings.0.append(&mut unmatched);
    Ok(World {
        catalogue,
        workload,
        world,
        requirements,
        classes: classes.len(),
        key: mix64(experiment.seed),
        prices: catalogue.routes.iter().map(|route| route.price).collect(),
        cluster: experiment.cluster.filter(|unit| *unit != Unit::Request),
        segments: experiment.slices,
    })
}

/// Whether a control has, or could have, this name.
fn is_control(name: &str, catalogue: &Catalogue) -> bool {
    let route = name.strip_prefix("always-");
    route.is_some_and(|route| catalogue.find(route).is_some())
        || ["length", "task-means", "oracle"].contains(&name)
        || name.starts_with("random-mix:")
        || name.starts_with("cost-matched-mix:")
}
